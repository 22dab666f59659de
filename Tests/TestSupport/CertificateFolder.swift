package import Foundation
import SocketSystem

/// A folder with files of a test, which goes with all that is in it; and the `openssl` command that works in it.
package final class CertificateFolder: Sendable {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
  }

  package let url: URL

  private static let shared = Locked<[URL]>([])
  private static let removal: Void = {
    atexit { for url in CertificateFolder.shared.withLock({ $0 }) { try? FileManager.default.removeItem(at: url) } }
  }()

  /// One that is shared is kept in a global, and goes when the process ends.
  package init(isShared: Bool = false) throws {
    // In /tmp, whatever TMPDIR is: errors cut a path after 100 characters.
    let url = URL(filePath: "/tmp/certificates-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    self.url = url
    if isShared {
      Self.shared.withLock { $0.append(url) }
      Self.removal
    }
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  package func callAsFunction(_ name: String) -> String { url.appending(path: name).path(percentEncoded: false) }

  package func write(_ name: String, _ text: String) throws { try write(name, Array(text.utf8)) }

  package func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: url.appending(path: name)) }

  package func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: url.appending(path: name))) }

  package func text(_ name: String) throws -> String { String(decoding: try read(name), as: UTF8.self) }

  /// Runs the command `openssl` with arguments that spaces separate. It must succeed. Returns what it wrote.
  @discardableResult
  package func openssl(_ line: String) throws -> String {
    let (status, output) = try run(line.split(separator: " ").map(String.init))
    if status != 0 { throw Failure(description: "openssl \(line): \(output)") }
    return output
  }

  /// Runs the command `openssl` to its end, by popen(3), because Foundation's `Process` leaks. The output is that of both streams.
  package func run(_ arguments: [String]) throws -> (status: Int32, output: String) {
    // The command gives up by itself: nothing here waits for it longer.
    let words = ["cd", callAsFunction(""), "&&", "exec", "timeout", "60", "openssl"].map { $0 == "&&" ? $0 : quote($0) }
    let line = (words + arguments.map(quote) + ["</dev/null", "2>&1"]).joined(separator: " ")
    // SAFETY: the stream is used until it is closed, once; no more is read than there is room for.
    guard let stream = unsafe popen(line, "re") else { throw SystemError(call: "popen", errno: errno) }
    var output: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe fread(&buffer, 1, buffer.count, stream)
      if count == 0 { break }
      output += buffer[..<count]
    }
    let status = unsafe pclose(stream)
    return (status & 0x7f == 0 ? status >> 8 & 0xff : -1, String(decoding: output, as: UTF8.self))
  }

  /// As the shell takes it for one word.
  private func quote(_ word: String) -> String { "'\(word.replacing("'", with: "'\\''"))'" }
}
