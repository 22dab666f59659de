import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// The example of many datagrams in the article about datagrams, and the examples of the article about speed.
struct BulkTransferTests {
  @Test func `All parts arrive, whole`() async throws {
    try await within("they arrive", seconds: 60) {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let part = (0..<1200).map { UInt8(truncatingIfNeeded: $0) }
      let serving = Task { try await upload(part, on: server) }
      let received = try await download(1000, from: server.localAddresses[0])
      #expect(received.map(\.bytes) == Array(repeating: part, count: 1000))
      await server.close()
      try await serving.value
    }
  }

  @Test func `Lines are counted where they were received, however they arrive`() async throws {
    try await within("all lines are counted") {
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = 3
      let (client, server) = InMemoryConnection.pair(configuration: configuration)
      async let count = countLines(on: server)
      try await client.write(utf8: "one\n\ntwo\nthree")
      await client.close()
      #expect(try await count == 3)
    }
  }

  @Test(arguments: [0, 5, 1_000_000])
  func `A file arrives behind its length`(size: Int) async throws {
    try await within("the file arrives") {
      let file = URL.temporaryDirectory.appending(path: UUID().uuidString)
      let contents = (0..<size).map { UInt8(truncatingIfNeeded: $0 / 3) }
      try Data(contents).write(to: file)
      defer { try? FileManager.default.removeItem(at: file) }
      let path = file.path(percentEncoded: false)
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task { try await listener.serve { try await sendFile(at: path, to: $0) } }
      let client = try await TCPConnection.connect(to: .address(try #require(listener.localAddresses.first)))
      let length = try #require(Int(try await client.read(.line()) ?? ""))
      #expect(length == size)
      #expect(try await client.read(exactly: size) == contents)
      #expect(try await client.read() == nil)
      await client.close()
      serving.cancel()
      #expect(try await serving.value.finished == 1)
    }
  }

  @Test func `A batch of lines takes fewer jobs of the reactor than its lines one by one`() async throws {
    try await within("all answers arrive", seconds: 60) {
      let single = try await Self.jobs { connection in
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
      }
      let batched = try await Self.jobs { connection in
        for try await lines in connection.batches(of: .line()) {
          try await connection.write(utf8: lines.map { $0 + "\n" }.joined())
        }
      }
      #expect(single >= 0.9 && batched < 0.5, "\(single) jobs for each line, and \(batched) in batches")
    }
  }

  /// Counts the jobs of a server's reactor for each of a thousand lines that arrive together.
  private static func jobs(
    _ handler: @escaping @Sendable (TCPConnection) async throws -> Void
  ) async throws -> Double {
    let reactor = Reactor()
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: reactor)
    let serving = Task { try await listener.serve { try await handler($0) } }
    let client = try await TCPConnection.connect(to: .address(try #require(listener.localAddresses.first)))
    let lines = (0..<1_000).map { "\($0)\n" }.joined()
    let jobs = try await jobsPerRequest(1_000, on: reactor) {
      try await client.write(utf8: lines)
      #expect(try await client.read(exactly: lines.utf8.count) == Array(lines.utf8))
    }
    await client.close()
    serving.cancel()
    _ = try await serving.value
    return jobs
  }
}
