import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport

/// The disks that one suite runs on.
enum DiskKind: CaseIterable {
  case linux, simulated

  /// Runs a test with an empty disk.
  nonisolated(nonsending) func withDisk(
    file: String = #fileID, line: Int = #line, _ body: @escaping @Sendable (any Disk) async throws -> Void
  ) async throws {
    switch self {
    case .linux:
      let folder = try Folder()
      try await within("the calls of the disk return", file: file, line: line) {
        try await body(LinuxDisk(directory: folder.url.path))
      }
      withExtendedLifetime(folder) {}
    case .simulated:
      try await ActorSocketsTests.simulated(file: file, line: line) { simulation in
        let host = simulation.host("server")
        try await host.run { try await body(host.disk) }
      }
    }
  }
}

extension Disk {
  /// Reads a file, however long it is.
  func contents(of path: String) async throws -> [UInt8] { try await read(path, maximumLength: .max) }

  /// Writes a file. Its contents and its name are on the disk then.
  func store(_ bytes: [UInt8], at path: String, in directory: String = "") async throws {
    let file = try await open(path)
    try await file.write(bytes, at: 0)
    try await file.synchronize()
    try await synchronizeDirectory(directory)
  }
}
