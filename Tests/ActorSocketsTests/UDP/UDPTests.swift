import ActorSockets
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct UDPTests {
  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams go there and back`(transport: DatagramTransport) async throws {
    let (client, server, target) = try transport.pair()
    for text in ["", "a", String(repeating: "b", count: 9000)] {
      try await client.send(Array(text.utf8), to: target)
      let question = try await server.receive()
      #expect(question.bytes == Array(text.utf8) && !question.isTruncated)
      try await server.send(question.reply(Array("answer".utf8)))
      let answer = try await client.receive()
      #expect(answer.bytes == Array("answer".utf8))
      #expect(answer.remoteAddress == target)
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams of one flow keep their order`(transport: DatagramTransport) async throws {
    let (client, server, target) = try transport.pair()
    let receiving = Task {
      var seen: [Int] = []
      for try await datagram in server.datagrams {
        seen.append(Int(String(decoding: datagram.bytes, as: UTF8.self)) ?? -1)
        if seen.count == 1000 { break }
      }
      return seen
    }
    for number in 0..<1000 {
      try await client.send(Array("\(number)".utf8), to: target)
      // The datagrams on their way stay fewer than the kernel keeps.
      if number % 8 == 7 {
        try await eventually("they are received") { await server.metrics.datagramsReceived > number }
      }
    }
    #expect(try await receiving.value == Array(0..<1000))
  }

  @Test(arguments: [("127.0.0.1:0", SocketError.Code.invalidArgument), ("[::1]:9", .familyNotSupported)])
  func `An address that gets no datagrams is an error of the call that names it`(
    text: String, code: SocketError.Code
  ) async throws {
    let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
    let address = try SocketAddress(parsing: text)
    let sending = await expectError(code) { try await endpoint.send([1], to: address) }
    let connecting = await expectError(code) { try await endpoint.connect(to: .address(address)) }
    #expect(sending.operation == "send" && connecting.operation == "connect")
  }

  /// Held by a filter of an endpoint. When it is released, it removes the other filter.
  private final class Token: Sendable {
    private let endpoint: UDPEndpoint
    private let isReleased: Locked<Int>

    init(_ endpoint: UDPEndpoint, _ isReleased: Locked<Int>) {
      self.endpoint = endpoint
      self.isReleased = isReleased
    }

    deinit {
      endpoint.assumeIsolated {
        $0.setSendFilter(nil)
        $0.setReceiveFilter(nil)
      }
      isReleased.withLock { $0 += 1 }
    }

    func pass() -> UDPEndpoint.FilterVerdict { .pass }
  }

  @Test func `Releasing a filter may run code that sets filters`() async throws {
    for isClosed in [false, true] {
      let endpoint = try UDPEndpoint.bind()
      let released = Locked(0)
      await endpoint.setReceiveFilter { [token = Token(endpoint, released)] _ in token.pass() }
      if isClosed { await endpoint.close() } else { await endpoint.setReceiveFilter(nil) }
      #expect(released.withLock { $0 } == 1)
      await endpoint.close()
    }
  }
}
