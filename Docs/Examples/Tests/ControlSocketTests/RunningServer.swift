import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import ControlSocket

extension Tool {
  static let controlSocket = Tool(example: "ControlSocket")
}

/// A process of the program, which serves.
struct RunningServer: Sendable {
  let program: Program
  let address: Endpoint
  let path: String

  /// Starts a server on a free port.
  init(at path: String) async throws {
    try await self.init(at: path, ["serve", "127.0.0.1:0", path])
  }

  /// Starts a successor.
  init(takingOverAt path: String) async throws {
    try await self.init(at: path, ["take-over", path])
  }

  private init(at path: String, _ arguments: [String]) async throws {
    self.path = path
    program = try Program(.controlSocket, arguments)
    try await program.waitForOutput("control at \(path)\n")
    let address = try #require(await program.output.text.firstMatch(of: /serves (\S+),/)?.1)
    self.address = try Endpoint(parsing: String(address))
  }

  var processIdentifier: Int32 { program.processIdentifier }

  /// Gives a command by the program's client, and returns the lines of the reply.
  func ask(_ words: String...) async throws -> [String] {
    try await Program.run(.controlSocket, ["ask", path] + words).split(separator: "\n").map(String.init)
  }

  /// Returns the value of a line of `status`.
  func status(_ key: String) async throws -> String? {
    try await ask("status").first { $0.hasPrefix(key + ": ") }.map { String($0.dropFirst(key.count + 2)) }
  }

  /// The number of descriptors that the process has open.
  var descriptors: Int { get throws { try openDescriptors(of: "\(processIdentifier)") } }

  /// Connects, asks one question, and returns the process that has answered.
  func answer() async throws -> Int32? { try await Self.answer(from: address) }

  static func answer(from address: Endpoint) async throws -> Int32? {
    let connection = try await TCPConnection.connect(to: address)
    let process = try await answer(on: connection)
    await connection.close()
    return process
  }

  static func answer(on connection: TCPConnection) async throws -> Int32? {
    try await connection.write(utf8: "hello\n")
    let line = try await connection.read(.line())
    let parts = line?.split(separator: ":") ?? []
    return parts.last == " hello" ? parts.first.flatMap { Int32($0) } : nil
  }
}

func openDescriptors(of process: String = "self") throws -> Int {
  try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").count
}

/// Connects to a control socket as a client that keeps to no protocol.
func connectRaw(to path: String) async throws -> TCPConnection {
  try await TCPConnection.connect(to: .unix(path: path))
}

/// A duplicate of a descriptor of no use.
func someDescriptor() throws -> OwnedDescriptor { try OwnedDescriptor(duplicating: 2) }

/// Waits until a condition holds. The deadline is that of the test.
func waitUntil(_ isTrue: () async throws -> Bool) async throws {
  while try await !isTrue() {
    try Task.checkCancellation()
    await Task.yield()
  }
}
