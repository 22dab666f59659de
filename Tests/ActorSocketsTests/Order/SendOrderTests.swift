import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// The order and the outcomes of sends, wherever the caller runs. On the reactor, a send may do without a hop.
@Suite struct SendOrderTests {
  /// What a task prefers, and so where it calls an endpoint of `reactor`.
  private static func preferences(_ reactor: Reactor) -> [(any TaskExecutor)?] { [reactor, nil, WorkerPool.shared] }

  @Test(arguments: DatagramTransport.allCases, 0..<3)
  func `Datagrams leave in the order of the calls, whatever kind of calls`(
    transport: DatagramTransport, place: Int
  ) async throws {
    try await within("all arrive", seconds: 60) {
      let reactor = Reactor()
      let (client, server) = (try transport.bind(reactor: reactor), try transport.bind(reactor: reactor))
      let address = try transport.address(of: server)
      try await Task(executorPreference: Self.preferences(reactor)[place]) {
        var random = SeededRandom(seed: UInt64(place))
        for _ in 0..<100 {
          // No more than the smallest buffer of a unix socket holds.
          for number in 0..<9 as Range<UInt8> {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: client.enqueueSend(Datagram([number], to: address))
            case 1: try await client.send(Datagram([number], to: address))
            case 2: try await client.send([Datagram([number], to: address)])
            default: try await client.send([number], to: address)
            }
          }
          var seen: [UInt8] = []
          while seen.count < 9 { seen += try await server.receive(upTo: 9).map { $0.bytes[0] } }
          #expect(seen == Array(0..<9))
        }
      }.value
      #expect(await client.metrics.datagramsSent == 900)
    }
  }

  @Test(arguments: 0..<3)
  func `A send has the same outcome wherever it is called`(place: Int) async throws {
    try await within("the sends return") {
      let reactor = Reactor()
      let transport = DatagramTransport.ipv4
      let (client, server) = (try transport.bind(reactor: reactor), try transport.bind(reactor: reactor))
      let address = server.localAddresses[0]
      await client.setSendFilter { $0.bytes == [9] ? .drop : .pass }
      try await Task(executorPreference: Self.preferences(reactor)[place]) {
        try await client.send([9], to: address)
        try await client.send([1], to: address, timeout: .zero)
        #expect(try await server.receive().bytes == [1])
        await client.setSendFilter(nil)
        await expectError(.notConnected) { try await client.send([2]) }
        await expectError(.limitExceeded) { try await client.send([UInt8](repeating: 2, count: 70_000), to: address) }
        await expectError(.invalidArgument) { try await client.send([2], to: .ipv4(.loopback, port: 0)) }
        await expectError(.familyNotSupported) { try await client.send([2], to: .ipv6(.loopback, port: 9)) }
        await expectCancellation {
          let task = Task(executorPreference: Self.preferences(reactor)[place]) {
            try await eventually("the task is cancelled") { Task.isCancelled }
            try await client.send([2], to: address)
          }
          task.cancel()
          try await task.value
        }
        await client.close()
        await expectError(.closed) { try await client.send([2], to: address) }
        #expect(await server.metrics.datagramsReceived == 1)
      }.value
    }
  }

  @Test func `A task on the reactor that only sends lets other calls through`() async throws {
    try await within("the other call returns") {
      let reactor = Reactor()
      let (client, server) = (
        try DatagramTransport.ipv4.bind(reactor: reactor), try DatagramTransport.ipv4.bind(reactor: reactor)
      )
      let address = server.localAddresses[0]
      let (isSending, isOver) = (Gate(), Gate())
      let sending = Task(executorPreference: reactor) {
        var count = 0
        while !isOver.isOpen {
          try await client.send([1], to: address)
          count += 1
          if count == 1000 { isSending.open() }
        }
      }
      await isSending.wait()
      _ = try await server.receive()
      isOver.open()
      try await sending.value
    }
  }
}
