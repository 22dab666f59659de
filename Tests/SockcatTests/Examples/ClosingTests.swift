import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The examples of the article about closing.
@Suite struct ClosingTests {
  @Test func `A body that ends with the stream is answered up to the end`() async throws {
    try await within("the answer arrives") {
      let (client, server) = InMemoryConnection.pair()
      async let answer = submit(Array("abc".utf8), on: client)
      var body: [UInt8] = []
      for try await chunk in server.chunks { body += chunk }
      #expect(body == Array("abc".utf8))
      try await server.write(utf8: "three bytes")
      await server.close()
      #expect(try await answer == Array("three bytes".utf8))
      #expect(try await ending(of: client) == "closed after the peer had finished")
    }
  }

  @Test func `An answer that is too long is an error`() async throws {
    try await within("the error is thrown") {
      let (client, server) = InMemoryConnection.pair()
      let answering = Task { try await server.write([UInt8](repeating: 0, count: 2 << 20)) }
      let error = await #expect(throws: SocketError.self) { try await submit([], on: client) }
      #expect(error?.code == .limitExceeded)
      await client.abort()
      await #expect(throws: SocketError.self) { try await answering.value }
    }
  }

  @Test func `The report says who ended the connection, and how many bytes were not sent`() async throws {
    try await within("the connections end") {
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = 10
      let (client, server) = InMemoryConnection.pair(configuration: configuration)
      let sent = client.enqueueWrite([UInt8](repeating: 0, count: 100))
      #expect(try await server.read(exactly: 1) == [0])
      await server.abort()
      #expect(try await ending(of: server) == "closed here")
      await #expect(throws: SocketError.self) { try await sent.value }
      let ending = try await ending(of: client)
      #expect(ending.hasPrefix("reset by the peer, and ") && ending.hasSuffix(" bytes were not sent"))
    }
  }
}
