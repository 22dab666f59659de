import ActorSockets
import ExampleSupport
import Foundation
import Testing
@testable import control

@Suite struct ControlTests {
  /// A folder that is removed afterwards, and a publisher with a control socket in it.
  private func withPublisher(
    _ body: @escaping @Sendable (_ folder: URL, _ socket: String, _ clients: Endpoint) async throws -> Void
  ) async throws {
    try await within("the requests are answered and the servers have ended") {
      let folder = FileManager.default.temporaryDirectory.appending(path: "control-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      let socket = folder.appending(path: "socket").path(percentEncoded: false)
      let publisher = Publisher()
      let clients = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      let control = try TCPListener.bind(to: .unix(path: socket), configuration: Publisher.controlConfiguration)
      let serving = [
        Task { try await clients.serve { try await publisher.send(to: $0) } },
        Task { try await control.serve { try await publisher.answer($0) } },
      ]
      try await body(folder, socket, .address(clients.localAddresses[0]))
      await clients.drain(within: .seconds(10))
      await control.drain(within: .seconds(10))
      for server in serving { #expect(try await server.value.failed == 0) }
    }
  }

  private func download(from endpoint: Endpoint) async throws -> [UInt8] {
    let client = try await TCPConnection.connect(to: endpoint)
    var bytes: [UInt8] = []
    for try await chunk in client.chunks { bytes += chunk }
    await client.close()
    return bytes
  }

  @Test func `A file that is published is sent to everyone, until another one is`() async throws {
    try await withPublisher { folder, socket, clients in
      #expect(try await ask("status", at: socket) == "no file is published")
      #expect(try await download(from: clients).isEmpty)
      for (count, letter) in [(100_000, "a"), (3, "b")] {
        let file = folder.appending(path: letter)
        let content = Data(String(repeating: letter, count: count).utf8)
        try content.write(to: file)
        #expect(try await ask("publish", at: socket, passing: file.path(percentEncoded: false)) == "published")
        // The server has the open file, not its path.
        try FileManager.default.removeItem(at: file)
        #expect(try await download(from: clients) == Array(content))
        #expect(try await download(from: clients) == Array(content))
      }
      #expect(try await ask("status", at: socket)?.hasPrefix("a file of 3 bytes is published") == true)
    }
  }

  @Test func `What is not right is answered, and the file stays`() async throws {
    try await withPublisher { folder, socket, clients in
      let file = folder.appending(path: "file")
      try Data("abc".utf8).write(to: file)
      #expect(try await ask("publish", at: socket, passing: file.path(percentEncoded: false)) == "published")
      #expect(try await ask("publish", at: socket) == "no file came along")
      #expect(
        try await ask("publish", at: socket, passing: folder.path(percentEncoded: false))?.contains("file") == true)
      #expect(try await ask("stop", at: socket) == "the requests are status and publish")
      let missing = folder.appending(path: "missing").path(percentEncoded: false)
      let error = await #expect(throws: CannotOpen.self) { try await ask("publish", at: socket, passing: missing) }
      #expect(error?.path == missing)
      #expect(try await download(from: clients) == Array("abc".utf8))
    }
  }

  @Test func `Only the user may connect to the control socket`() async throws {
    try await withPublisher { _, socket, _ in
      let attributes = try FileManager.default.attributesOfItem(atPath: socket)
      #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }
  }
}
