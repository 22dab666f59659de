import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Which events of an endpoint's sockets wake the reactor. Each datagram that arrives while no call receives would, so after several of
/// them, epoll reports arrivals no more. Each one that has left would, too, so room is reported only while a datagram waits for it.
@Suite(.conformance, .endsInTime) struct DatagramInterestTests {
  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams that arrive while no call receives come in their order, and the next one wakes a receive`(
    transport: DatagramTransport
  ) async throws {
    let (client, server, address) = try transport.pair()
    for round in 0..<3 {
      // A unix socket has room for few.
      let count = transport.isUnix ? 8 : 40
      for number in 0..<count {
        try await client.send([UInt8(number)], to: address)
        #expect(await server.metrics.fetchedAhead == 0)
      }
      #expect(try await server.firstBytes(count, upTo: 7) == (0..<count).map { UInt8($0) }, "round \(round)")
      let waiting = Task.immediate { try await server.receive() }
      try await eventually("it waits") { await server.metrics.pendingReceives == 1 }
      try await client.send([255], to: address)
      #expect(try await waiting.value.bytes == [255])
    }
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `Arrivals that no call receives are reported no more until all are received`(transport: DatagramTransport)
    async throws
  {
    let (client, server, address) = try transport.pair()
    let number = try await server.withFileDescriptor { $0 }
    func isReported(_ expected: Bool) throws -> Bool {
      let events = try epollEvents(of: number)
      return events.count == 1 && (Readiness(rawValue: events[0]).contains(.readable) == expected)
    }
    var sent = 0
    try await eventually("arrivals are reported no more") {
      if try isReported(false) { return true }
      try await client.send([UInt8(truncatingIfNeeded: sent)], to: address)
      sent += 1
      // The reactor hears of this arrival before the next one. Otherwise several are one event, and a unix socket has room for few.
      _ = await server.metrics
      return false
    }
    // With faults, events that tell of nothing count, too.
    #expect(sent >= (ConformanceReactor.injected == nil ? 4 : 1))
    #expect(try await server.receive().bytes == [0])
    #expect(try isReported(true))
    #expect(try await server.firstBytes(sent - 1, upTo: 50) == (1..<sent).map { UInt8($0) })
    // Several arrivals in a row, each received before the next, change nothing.
    for _ in 0..<10 {
      try await client.send([1], to: address)
      #expect(try await server.receive().bytes == [1])
      #expect(try isReported(true))
    }
  }

  @Test(.inRealTime) func `Room is reported only while a datagram waits for it`() async throws {
    let (client, server, address, sent) = try await DatagramTransport.full()
    try await client.connect(to: .address(address))
    let number = try await client.withFileDescriptor { $0 }
    func isReported() throws -> [Bool] {
      try epollEvents(of: number).map { Readiness(rawValue: $0).contains(.writable) }
    }
    #expect(try isReported() == [false])
    let waiting = Task.immediate { try await client.send([200]) }
    try await client.hasPending(sends: 1)
    #expect(try isReported() == [true])
    #expect(try await server.firstBytes(sent + 1, upTo: 1) == Array(0..<UInt8(sent)) + [200])
    try await waiting.value
    try await eventually("room is reported no more") { try isReported() == [false] }
  }
}
