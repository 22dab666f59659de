import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct DatagramLookaheadTests {
  /// An endpoint that has received the datagrams [0], [1], …, and a loop that has got the first.
  private struct Scene {
    let reactor = Reactor()
    let client: UDPEndpoint
    let server: UDPEndpoint
    let address: SocketAddress
    var loop: UDPEndpoint.Datagrams

    init(_ transport: DatagramTransport, _ count: UInt8 = 4) async throws {
      client = try transport.bind()
      server = try transport.bind(reactor: reactor)
      address = try transport.address(of: server)
      for number in 0..<count { try await client.send([number], to: address) }
      // On loopback a datagram has arrived when it was sent.
      var loop = server.datagrams
      #expect(try await loop.next()?.bytes == [0])
      self.loop = loop
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams that were fetched need no reactor, also behind an answer`(transport: DatagramTransport) async throws {
    var scene = try await Scene(transport)
    let to = try transport.address(of: scene.client)
    for send in 0..<3 {
      switch send {
      case 0: try await scene.server.send([9], to: to)
      case 1: _ = scene.server.enqueueSend(Datagram([9], to: to))
      default: try await scene.server.send([Datagram([9], to: to)])
      }
      if send == 1 { try await scene.server.send([9], to: to) }
      let next = try await scene.reactor.whileBlocked { try await scene.loop.next() }
      #expect(next?.bytes == [UInt8(send + 1)])
    }
    #expect(await scene.server.metrics.fetchedAhead == 0)
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A call that was made earlier comes first`(transport: DatagramTransport) async throws {
    let scene = try await Scene(transport)
    let server = scene.server
    let release = Gate()
    scene.reactor.submit { while !release.isOpen {} }
    let earlier = Task.immediate { try await server.receive() }
    let loop = scene.loop
    let later = Task.immediate {
      var loop = loop
      return try await [loop.next()?.bytes, loop.next()?.bytes]
    }
    release.open()
    #expect(try await later.value == [[2], [3]])
    #expect(try await earlier.value.bytes == [1])
  }

  enum Other: CaseIterable, Sendable {
    case receive, several, withDatagrams, metrics, secondLoop, connect, close, cancel
  }

  @Test(arguments: DatagramTransport.allCases, Other.allCases)
  func `Whatever else asks for datagrams gets those that were not taken`(
    transport: DatagramTransport, other: Other
  ) async throws {
    var scene = try await Scene(transport)
    let server = scene.server
    #expect(try await scene.loop.next()?.bytes == [1])
    switch other {
    case .receive: #expect(try await server.receive().bytes == [2])
    case .several: #expect(try await server.receive(upTo: 9).map(\.bytes) == [[2], [3]])
    case .withDatagrams:
      var seen: [UInt8] = []
      try await server.withDatagrams(upTo: 1) { bytes, _ in seen.append(bytes[0]) }
      #expect(seen == [2])
    case .metrics: #expect(await server.metrics.fetchedAhead == 2)
    case .secondLoop:
      for try await datagram in server.datagrams {
        #expect(datagram.bytes == [2])
        break
      }
    case .connect:
      // Datagrams of others than the peer are dropped.
      let peer = try transport.bind()
      try await server.connect(to: .address(transport.address(of: peer)))
      try await server.send([1])
      try await peer.send([7], to: scene.address)
      #expect(try await scene.loop.next()?.bytes == [7])
      return
    case .close:
      await server.close()
      #expect(try await scene.loop.next()?.bytes == [2])
      #expect(try await scene.loop.next()?.bytes == [3])
      #expect(try await scene.loop.next() == nil)
      return
    case .cancel:
      let loop = scene.loop
      let mayGoOn = Gate()
      let cancelled = Task {
        await mayGoOn.wait()
        var loop = loop
        _ = try await loop.next()
      }
      cancelled.cancel()
      mayGoOn.open()
      await expectCancellation { try await cancelled.value }
    }
    if other == .several {
      try await scene.client.send([4], to: scene.address)
      #expect(try await scene.loop.next()?.bytes == [4])
    } else {
      let next: [UInt8] = other == .metrics || other == .cancel ? [2] : [3]
      #expect(try await scene.loop.next()?.bytes == next)
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A loop that takes few of the datagrams copies few of them`(transport: DatagramTransport) async throws {
    var scene = try await Scene(transport, 9)
    let server = scene.server
    for round in 0..<3 as Range<UInt8> {
      #expect(try await server.receive().bytes == [2 * round + 1])
      #expect(try await scene.loop.next()?.bytes == [2 * round + 2])
      // Nothing was taken from those of the last look, so every other call of the loop looks at one.
      #expect(await server.datagramsAhead == (round % 2 == 0 ? nil : 1))
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A loop takes nothing from a call that borrows datagrams`(transport: DatagramTransport) async throws {
    let reactor = Reactor()
    let client = try transport.bind()
    let server = try transport.bind(reactor: reactor)
    let address = try transport.address(of: server)
    let looping = Task {
      var loop = server.datagrams
      return try await [loop.next()?.bytes, loop.next()?.bytes]
    }
    try await server.hasPending(receives: 1)
    let borrowing = Task {
      var seen: [[UInt8]] = []
      try await server.withDatagrams(upTo: 2) { bytes, _ in seen.append([UInt8](copying: bytes)) }
      return seen
    }
    try await server.hasPending(receives: 2)
    // One event brings them all.
    try await reactor.whileBlocked {
      for number in 0..<4 as Range<UInt8> { try await client.send([number], to: address) }
    }
    #expect(try await borrowing.value == [[1], [2]])
    #expect(try await looping.value == [[0], [3]])
  }

  @Test(.endsInTime(seconds: 120), arguments: DatagramTransport.allCases, 0..<3)
  func `In any mix, the datagrams come in their order`(transport: DatagramTransport, seed: Int) async throws {
    let reactor = Reactor()
    let client = try transport.bind()
    let server = try transport.bind(reactor: reactor)
    let (to, back) = (try transport.address(of: server), try transport.address(of: client))
    let preference: (any TaskExecutor)? = [reactor, nil, WorkerPool.shared][seed % 3]
    try await Task(executorPreference: preference) {
      var random = SeededRandom(seed: UInt64(seed))
      var loop = server.datagrams
      var (sent, got) = (0, 0)
      func expect(_ bytes: [UInt8]?, _ way: String) throws {
        let expected = [UInt8(got >> 8), UInt8(got & 255)]
        if bytes != expected { throw Overdue(description: "\(way) got \(bytes ?? []) instead of \(expected)") }
        got += 1
      }
      while got < 3_000 {
        if sent == got {
          // No more than the smallest buffer of a unix socket holds.
          for _ in 0..<Int.random(in: 1...9, using: &random) {
            try await client.send([UInt8(sent >> 8), UInt8(sent & 255)], to: to)
            sent += 1
          }
        }
        switch Int.random(in: 0..<16, using: &random) {
        case 0..<9: try expect(await loop.next()?.bytes, "the loop")
        case 9: try expect(await server.receive().bytes, "receive")
        case 10: for datagram in try await server.receive(upTo: 3) { try expect(datagram.bytes, "receive(upTo:)") }
        case 11:
          var seen: [[UInt8]] = []
          try await server.withDatagrams(upTo: 2) { bytes, _ in seen.append([UInt8](copying: bytes)) }
          for bytes in seen { try expect(bytes, "withDatagrams") }
        case 12:
          if sent < got + 2 { continue }
          let earlier = Task.immediate { try await server.receive() }
          let later = try await loop.next()
          try expect(await earlier.value.bytes, "an earlier call")
          try expect(later?.bytes, "the loop behind an earlier call")
        case 13: loop = server.datagrams
        case 14: _ = await server.metrics
        default:
          try await server.send([1], to: back)
          _ = try await client.receive()
        }
      }
    }.value
  }
}

extension UDPEndpoint {
  /// The number of datagrams that a loop may take.
  fileprivate var datagramsAhead: Int? { receives.queue.lookahead?.count }
}
