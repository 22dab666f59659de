import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The examples of the article about slow consumers.
@Suite struct SlowConsumersTests {
  @Test func `A subscriber that is slow misses the oldest items, and another one gets all`() async throws {
    try await within("the items arrive") {
      let publisher = Publisher()
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = 16
      let (quick, quickServer) = InMemoryConnection.pair()
      let (slow, slowServer) = InMemoryConnection.pair(configuration: configuration)
      let serving = [quickServer, slowServer].map { server in
        Task { try await sendNews(of: publisher, to: server) }
      }
      // Both have subscribed when they have got an item.
      for client in [quick, slow] {
        while try await client.read(.line(), timeout: .zero, unlessTimedOut: ()) == nil { await publisher.publish("0") }
      }
      for number in 1...1_000 {
        await publisher.publish("\(number)")
        var line: String?
        repeat { line = try await quick.read(.line()) } while line == "0"
        #expect(line == "\(number)")
      }
      // The items that have waited last are there, and some before them are not.
      var received: [Int] = []
      while received.last != 1_000 { received.append(try #require(Int(try await slow.read(.line()) ?? ""))) }
      #expect(received.suffix(100) == Array(901...1_000) && received.count < 900)
      for task in serving { task.cancel() }
    }
  }

  @Test func `A client that reads too slowly is disconnected, and the handler hears why`() async throws {
    try await within("the client is disconnected") {
      let listener = try listenForReaders(on: .host("127.0.0.1", port: 0))
      let client = try RawSocket.connected(to: try #require(listener.localAddresses.first))
      let connection = try await listener.accept()
      let error = await #expect(throws: SocketError.self) {
        // The kernel's buffers are finite, so some write exceeds the budget.
        while true {
          let sent = connection.enqueueWrite([UInt8](repeating: 0, count: 65_536))
          if await connection.state == .closed { try await sent.value }
        }
      }
      #expect(error?.code == .peerTooSlow)
      client.close()
      await listener.close()
    }
  }
  @Test func `A proxy with a limited rate passes everything on`() async throws {
    try await Simulation().run {
      let server = try TCPListener.bind(to: .port(7001))
      let echo = Task { try await server.serve { for try await line in $0.lines { try await $0.write(utf8: line) } } }
      let proxy = try TCPListener.bind(to: .port(7000))
      let serving = Task { try await serveEvenly(proxy, to: .host("127.0.0.1", port: 7001)) }
      let text = String(repeating: "x", count: 60_000)
      let answer = try await TCPConnection.withConnection(to: .host("127.0.0.1", port: 7000)) { connection in
        try await connection.write(utf8: text + "\n")
        return try await connection.read(exactly: 60_000)
      }
      try #require(answer == Array(text.utf8))
      serving.cancel()
      echo.cancel()
    }
  }
}

extension ByteStream {
  /// Reads at once; `nil` also if there is nothing to read yet.
  fileprivate func read(
    _ request: ReadRequest<String?>, timeout: Timeout, unlessTimedOut: ()
  ) async throws -> String? {
    do {
      return try await read(request, timeout: timeout)
    } catch SocketError.Code.timedOut {
      return nil
    }
  }
}
