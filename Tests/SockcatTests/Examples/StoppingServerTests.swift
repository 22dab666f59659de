import ActorSockets
import ActorSocketsTLS
import Foundation
import SocketSystem
import TestSupport
import Testing

/// The examples of the article about stopping. Those with signals run in a process of their own.
@Suite struct StoppingServerTests {
  private static func bind() throws -> (TCPListener, SocketAddress) {
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    return (listener, try #require(listener.localAddresses.first))
  }

  @Test func `A signal drains, and a client that waits sees a clean end`() async {
    await #expect(processExitsWith: .success) {
      try await within("the server ends") {
        let (listener, address) = try Self.bind()
        let serving = Task { try await serveUntilSignalled(listener) }
        let client = try RawSocket.connected(to: address)
        try client.send("hello\n")
        #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
        kill(getpid(), SIGTERM)
        #expect(try await client.receiveToEnd() == [])
        client.close()
        #expect(try await serving.value.finished == 1)
      }
    }
  }

  @Test func `Behind a load balancer, health checks fail before the drain`() async {
    await #expect(processExitsWith: .success) {
      try await within("the server ends") {
        let (listener, address) = try Self.bind()
        let serving = Task { try await serveBehindLoadBalancer(listener) }
        let client = try RawSocket.connected(to: address)
        func check() async throws -> String {
          try client.send("health\n")
          var answer: [UInt8] = []
          while answer.last != UInt8(ascii: "\n") { answer += try await client.receive(exactly: 1) }
          return String(decoding: answer, as: UTF8.self)
        }
        #expect(try await check() == "healthy\n")
        kill(getpid(), SIGTERM)
        try await eventually("the health check fails") { try await check() == "stopping\n" }
        let late = try RawSocket.connected(to: address)
        try late.send("hello\n")
        #expect(try await late.receive(exactly: 6) == Array("hello\n".utf8))
        for client in [client, late] { client.close() }
        // The second signal waits neither for the notice nor for the drain.
        kill(getpid(), SIGTERM)
        _ = try await serving.value
      }
    }
  }

  @Test func `A signal drains two listeners`() async {
    await #expect(processExitsWith: .success) {
      try await within("the servers end") {
        let (plain, address) = try Self.bind()
        let (encrypted, encryptedAddress) = try Self.bind()
        let identity = try TLSIdentity.selfSigned(for: ["localhost"])
        let context = try TLSContext(TLSConfiguration(identity: identity))
        let serving = Task { try await serve(plain, encrypted, context) }
        let client = try RawSocket.connected(to: address)
        try client.send("hello\n")
        #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
        let trusting = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
        let secure = try await TLSConnection.connect(
          to: .address(encryptedAddress), context: trusting, serverName: "localhost")
        try await secure.write(utf8: "hello\n")
        #expect(try await secure.read(until: .lf) == Array("hello\n".utf8))
        kill(getpid(), SIGTERM)
        #expect(try await client.receiveToEnd() == [])
        client.close()
        #expect(try await secure.read() == nil)
        await secure.close()
        #expect(try await serving.value.finished == 2)
      }
    }
  }

  @Test func `Clients that are connected get their events, and hear goodbye`() async throws {
    try await within("the server ends") {
      let (listener, address) = try Self.bind()
      let serving = Task {
        try await listener.serve { connection in
          let (events, continuation) = AsyncStream.makeStream(of: String.self)
          continuation.yield("event")
          // The handler of the first client runs out of events, and tells nothing more.
          if try await connection.read(exactly: 1) == [0] { continuation.finish() }
          try await sendEvents(events, to: connection)
          continuation.finish()
        }
      }
      let clients = try (0..<3).map { _ in try RawSocket.connected(to: address) }
      for (index, client) in clients.enumerated() {
        try client.send([index == 0 ? 0 : 1])
        #expect(try await client.receive(exactly: 6) == Array("event\n".utf8))
      }
      #expect(try await clients[0].receiveToEnd() == [])
      clients[0].close()
      await listener.drain(within: .seconds(30))
      for client in clients.dropFirst() {
        #expect(try await client.receiveToEnd() == Array("The server stops.\n".utf8))
        client.close()
      }
      let report = try await serving.value
      #expect(report.finished == 3 && report.failed == 0 && report.failedByPeer == 0)
    }
  }

  @Test func `Errors of the program reach the logger, and those of peers do not`() async throws {
    try await within("the server ends") {
      let (listener, address) = try Self.bind()
      let log = Notes<String>()
      let serving = Task { try await serve(listener, logging: { log.add($0) }) }
      for text in ["world\n", "nobody\n", "cut off"] {
        let client = try RawSocket.connected(to: address)
        try client.send(text)
        client.finishWriting()
        let answer = (try? await client.receiveToEnd()) ?? []
        #expect(answer == (text == "world\n" ? Array("hello world\n".utf8) : []))
        client.close()
      }
      serving.cancel()
      let report = try await serving.value
      #expect(report.finished == 1 && report.failed == 1 && report.failedByPeer == 1)
      #expect(log.all.count == 1 && log.all.first?.hasSuffix("UnknownName()") == true)
    }
  }
}
