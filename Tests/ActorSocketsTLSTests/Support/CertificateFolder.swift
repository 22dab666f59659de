import Foundation
import SocketSystem
import Testing

/// A folder with files of a test, which goes with all that is in it; and the `openssl` command that works in it.
final class CertificateFolder: Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  let url: URL

  private static let shared = Guarded<[URL]>([])
  private static let removal: Void = {
    atexit { for url in CertificateFolder.shared.withLock({ $0 }) { try? FileManager.default.removeItem(at: url) } }
  }()

  /// - Parameter isShared: Whether it is kept in a global, so that it goes when the process ends.
  /// - Throws: Why it cannot be made.
  init(isShared: Bool = false) throws {
    let url = FileManager.default.temporaryDirectory.appending(path: "certificates-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    self.url = url
    if isShared {
      Self.shared.withLock { $0.append(url) }
      Self.removal
    }
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  /// The path of a file in it.
  func callAsFunction(_ name: String) -> String { url.appending(path: name).path(percentEncoded: false) }

  func write(_ name: String, _ text: String) throws { try write(name, Array(text.utf8)) }

  func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: url.appending(path: name)) }

  func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: url.appending(path: name))) }

  func text(_ name: String) throws -> String { String(decoding: try read(name), as: UTF8.self) }

  /// Runs the command `openssl`, which must succeed.
  ///
  /// - Parameter line: Its arguments, separated by spaces.
  /// - Returns: What it wrote.
  /// - Throws: What it wrote, if it failed.
  @discardableResult
  func openssl(_ line: String) throws -> String {
    let (status, output) = try run(line.split(separator: " ").map(String.init))
    if status != 0 { throw Failure(description: "openssl \(line): \(output)") }
    return output
  }

  /// Runs the command `openssl`, and waits for its end.
  ///
  /// - Parameter arguments: What it is given.
  /// - Returns: Its exit status, and what it wrote to both of its outputs.
  /// - Throws: Why it does not start.
  func run(_ arguments: [String]) throws -> (status: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    // The command gives up by itself: nothing here waits for it longer.
    process.arguments = ["timeout", "60", "openssl"] + arguments
    process.currentDirectoryURL = url
    process.standardInput = FileHandle.nullDevice
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: output, as: UTF8.self))
  }
}
