import Foundation
import Testing

/// A program to run.
package struct Tool: Sendable {
  package let name: String
  /// The Debian package that contains it; for a program of this package, the target.
  package let package: String
  package let url: URL

  /// Why a test cannot use the tool; `nil` if it can.
  package var obstacle: String? {
    if FileManager.default.isExecutableFile(atPath: url.path) { return nil }
    return "\(name) is not installed: apt-get install \(package)"
  }

  /// A program from the search path, or from the folders with system programs.
  package init(_ name: String, package: String? = nil) {
    self.name = name
    self.package = package ?? name
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    let found = "\(path):/usr/sbin:/sbin".split(separator: ":").map {
      URL(fileURLWithPath: String($0)).appendingPathComponent(name)
    }
    url =
      found.first { FileManager.default.isExecutableFile(atPath: $0.path) }
      ?? URL(fileURLWithPath: "/nonexistent/\(name)")
  }

  /// A program at a certain place, which needs another file.
  package init(name: String, package: String, path: String, needing file: String) {
    self.name = name
    self.package = package
    let isThere = FileManager.default.fileExists(atPath: file)
    url = URL(fileURLWithPath: isThere ? path : "/nonexistent/\(name)")
  }

  /// A program of this package, which is built beside the tests.
  package init(example name: String) {
    self.name = name
    package = name
    let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    url = URL(fileURLWithPath: own).deletingLastPathComponent().appendingPathComponent(name)
  }
}

/// Those that several examples are tested with.
extension Tool {
  package static let curl = Tool("curl")
  package static let wrk = Tool("wrk")
  package static let openssl = Tool("openssl")
  package static let python = Tool("python3")

  /// The system's Python, if it has the library `websockets`.
  package static let websockets = Tool(
    name: "python3", package: "python3-websockets", path: "/usr/bin/python3",
    needing: "/usr/lib/python3/dist-packages/websockets/__init__.py")

  /// The path of a script beside the file of the caller.
  package static func script(_ name: String, beside file: String = #filePath) -> String {
    URL(fileURLWithPath: file).deletingLastPathComponent().appendingPathComponent(name).path
  }
}

/// Thrown by a test that cannot run because the machine lacks a tool.
package struct MissingRequirement: Error, CustomStringConvertible {
  package let description: String
}

extension Trait where Self == ConditionTrait {
  /// Runs the test if a tool is installed. Without it the test fails with `CI=true`, and is otherwise skipped.
  package static func needs(_ tool: Tool) -> Self { .runs(unless: tool.obstacle) }

  /// Runs the test unless there is an obstacle. If there is, it fails with `CI=true`, and is otherwise skipped.
  static func runs(unless obstacle: String?) -> Self {
    guard let reason = obstacle else { return .enabled { true } }
    return .enabled(Comment(rawValue: reason)) {
      if ["true", "1"].contains(ProcessInfo.processInfo.environment["CI"] ?? "") {
        throw MissingRequirement(description: "with CI=true no test may be skipped: \(reason)")
      }
      return false
    }
  }
}

/// A folder for a test's files. It is removed with its last reference.
package final class Folder: Sendable {
  package let url: URL
  package var path: String { url.path }

  package init() throws {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("examples-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  /// The path of a file in the folder.
  package func file(_ name: String) -> String { url.appendingPathComponent(name).path }

  /// Writes a file, and the folders that lead to it.
  package func write(_ name: String, _ content: some Sequence<UInt8>) throws {
    let file = url.appendingPathComponent(name)
    try FileManager.default.createDirectory(
      at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(content).write(to: file)
  }

  package func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: url.appendingPathComponent(name))) }
}
