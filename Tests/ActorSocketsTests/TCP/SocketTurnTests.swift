import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// A listener or an endpoint with several sockets: while a call waits, nothing acceptable waits at any of them.
@Suite(.endsInTime) struct SocketTurnTests {
  // MARK: Without sockets

  @Test func `A round tries each socket once, whatever the sockets yield meanwhile`() {
    for count in 1...4 {
      for yields in 0..<(1 << count) {
        for start in 0..<count {
          var rotation = SocketRotation(count: count)
          rotation.yielded((start + count - 1) % count)
          var tried: [Int] = []
          for index in rotation.round() {
            tried.append(index)
            if yields >> index & 1 == 1 { rotation.yielded(index) }
          }
          #expect(tried == (0..<count).map { (start + $0) % count }, "\(count) sockets, \(yields)")
        }
      }
    }
  }

  @Test func `The socket that yielded something is tried last in the next round`() {
    for count in 1...4 {
      for index in 0..<count {
        var rotation = SocketRotation(count: count)
        rotation.yielded(index)
        #expect(Array(rotation.round()).last == index)
      }
    }
  }

  private enum Waiting { case good, bad }

  @Test func `While a call waits, nothing good waits at any socket, and what each has keeps its order`() {
    for seed in 0..<2_000 as Range<UInt64> {
      var random = SeededRandom(seed: seed)
      let count = Int.random(in: 1...4, using: &random)
      var rotation = SocketRotation(count: count)
      var waiting: [[Waiting]] = Array(repeating: [], count: count)
      var good = 0
      for _ in 0..<30 {
        for _ in 0..<Int.random(in: 0...3, using: &random) {
          let index = Int.random(in: 0..<count, using: &random)
          waiting[index].append(Bool.random(using: &random) ? .good : .bad)
          if waiting[index].last == .good { good += 1 }
          rotation.mayAllBeReady()
        }
        // A budget may end a round early; then the next call goes on.
        var budget = Int.random(in: 1...6, using: &random)
        var hasStopped = false
        let found = rotation.round().first { index -> SocketTry<Int> in
          guard rotation.mayFind(at: index), let next = waiting[index].first else {
            rotation.markEmpty(index)
            return .empty
          }
          budget -= 1
          if budget < 0 {
            hasStopped = true
            return .stop
          }
          waiting[index].removeFirst()
          rotation.yielded(index)
          return next == .good ? .found(index) : .again
        }
        if let found {
          good -= 1
          #expect(Array(rotation.round()).last == found, "seed \(seed)")
        } else if !hasStopped {
          #expect(good == 0 && !rotation.mayFind, "seed \(seed): a call waits although something is there")
        }
      }
    }
  }

  // MARK: Listeners

  /// A listener with several sockets, and clients of which some are refused.
  private struct Scene {
    let refused = Locked<Set<SocketAddress>>([])
    let listener: TCPListener
    private var crowdSize = 0 as UInt8

    init(sockets: Int, on reactor: Reactor) throws {
      var configuration = TCPListener.Configuration()
      configuration.connection.prepare = { [refused] socket in
        guard let peer = try BorrowedDescriptor(socket.fileDescriptor).remoteAddress() else { return }
        if refused.withLock({ $0.contains(peer) }) { throw SocketError(.rejected, operation: "test") }
      }
      let found = try (0..<sockets).map { _ in
        try AdoptableSocket(RawSocket.listening().release(), as: .listener)
      }
      let registrations = try found.map { Registration(on: reactor, holding: try $0.take()) }
      listener = TCPListener(registrations, found.compactMap(\.address), configuration, reactor, isAdopted: true)
    }

    func client(of index: Int, isRefused: Bool, from source: SocketAddress? = nil) throws -> RawSocket {
      let client = try RawSocket.connected(from: source, to: listener.localAddresses[index])
      if isRefused {
        let address = try client.address
        refused.withLock { _ = $0.insert(address) }
      }
      return client
    }

    /// Makes connections to random sockets, of which about half are refused, and returns the others.
    mutating func crowd(_ random: inout SeededRandom) throws -> (good: [RawSocket], refused: [RawSocket]) {
      var crowd: (good: [RawSocket], refused: [RawSocket]) = ([], [])
      for _ in 0..<Int.random(in: 1...8, using: &random) {
        let index = Int.random(in: listener.localAddresses.indices, using: &random)
        let isRefused = Bool.random(using: &random)
        // An address of its own for each, because the kernel may give the port of one that is gone to the next one.
        crowdSize += 1
        let source = SocketAddress.ipv4(IPv4Address(127, 0, 1, crowdSize), port: 0)
        let client = try client(of: index, isRefused: isRefused, from: source)
        if isRefused { crowd.refused.append(client) } else { crowd.good.append(client) }
      }
      return crowd
    }
  }

  @Test(arguments: 1...4)
  func `A connection to one socket is accepted although another socket refuses its own`(sockets: Int) async throws {
    for seed in 0..<UInt64(25) {
      var random = SeededRandom(seed: seed)
      let reactor = Reactor()
      var scene = try Scene(sockets: sockets, on: reactor)
      for _ in 0..<3 {
        let crowd = try scene.crowd(&random)
        // No event announces these connections again.
        try await reactor.sleeps()
        var peers: Set<SocketAddress?> = []
        for _ in crowd.good { peers.insert(try await scene.listener.accept().remoteAddress) }
        #expect(peers == Set(try crowd.good.map { try $0.address }), "seed \(seed)")
      }
    }
  }

  @Test(arguments: 1...4)
  func `A drain serves all that wait at one socket although another socket refuses its own`(sockets: Int) async throws {
    for seed in 0..<UInt64(25) {
      var random = SeededRandom(seed: seed)
      let time = ManualTime()
      var scene = try Scene(sockets: sockets, on: time.reactor)
      let isServed = Gate()
      let serving = Task { [listener = scene.listener] in
        try await listener.serve(.init(limits: .init(connections: 1), drain: .within(.seconds(100)))) { connection in
          isServed.open()
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
      let first = try scene.client(of: 0, isRefused: false)
      await isServed.wait()
      let crowd = try scene.crowd(&random)
      serving.cancel()
      await expectError(.closed) { _ = try await scene.listener.accept() }
      first.close()
      for client in crowd.good { try client.send("hello\n") }
      for client in crowd.good {
        // The server closes after the first message.
        #expect(try await client.receiveToEnd() == Array("hello\n".utf8), "seed \(seed)")
        client.close()
      }
      let report = try await serving.value
      #expect(report.finished == 1 + crowd.good.count, "seed \(seed): \(report)")
      #expect(report.refused == crowd.refused.count, "seed \(seed): \(report)")
    }
  }

  @Test func `A connection to one socket is served although a peer of another socket has too many`() async throws {
    let reactor = Reactor()
    let scene = try Scene(sockets: 3, on: reactor)
    let mayEnd = Gate()
    let serving = Task {
      try await scene.listener.serve(.init(limits: .init(connections: 2, connectionsPerPeer: 1))) { connection in
        try await connection.write(utf8: "welcome\n")
        if connection.remoteAddress?.with(port: 0) == .ipv4(.loopback, port: 0) { await mayEnd.wait() }
      }
    }
    let first = try scene.client(of: 0, isRefused: false)
    #expect(try await first.receive(exactly: 8) == Array("welcome\n".utf8))
    for round in 0..<4 as Range<UInt8> {
      // Another peer in each round, because the last one may count until the server has seen it close.
      let other = SocketAddress.ipv4(IPv4Address(127, 0, 0, 77 + round), port: 0)
      let (tooMany, good) = try await reactor.whileBlocked {
        let tooMany = try scene.client(of: 0, isRefused: false)
        let good = try RawSocket.connected(from: other, to: scene.listener.localAddresses[1])
        return (tooMany, good)
      }
      #expect(try await good.receiveToEnd() == Array("welcome\n".utf8))
      tooMany.close()
      good.close()
    }
    mayEnd.open()
    #expect(try await serving.stop().refused == 4)
  }

  // MARK: Datagrams

  @Test(.needsNamespaces)
  func `A datagram at one of four sockets is received although the datagrams of two others are dropped`() async throws {
    let namespace = try await Namespace()
    try await namespace.ip("link set lo up", "address add 127.0.0.2/8 dev lo", "address add 127.0.0.3/8 dev lo")
    let reactor = Reactor()
    let (server, client) = try await namespace.run {
      (
        try UDPEndpoint.bind(to: .host("lo", port: 0), reactor: reactor),
        try UDPEndpoint.bind(to: .host("localhost", port: 0))
      )
    }
    await server.setReceiveFilter { $0.bytes == [0] ? .drop : .pass }
    let addresses = server.localAddresses
    try #require(addresses.count == 4)
    for first in 0..<4 {
      // After a datagram of the socket before, the next pass begins with the first one. Nothing has arrived there.
      try await client.send([1], to: addresses[(first + 3) % 4])
      #expect(try await server.receive().bytes == [1])
      for dropped in 1...2 { try await client.send([0], to: addresses[(first + dropped) % 4]) }
      try await client.send([1], to: addresses[(first + 3) % 4])
      // No event announces these datagrams again.
      try await reactor.sleeps()
      #expect(try await server.receive(timeout: .zero).bytes == [1])
    }
  }

  @Test func `A datagram at one socket is received although another socket's datagrams are dropped`() async throws {
    let reactor = Reactor()
    let server = try UDPEndpoint.bind(to: .host("localhost", port: 0), reactor: reactor)
    let client = try UDPEndpoint.bind(to: .host("localhost", port: 0))
    await server.setReceiveFilter { $0.bytes == [0] ? .drop : .pass }
    let addresses = server.localAddresses
    for (dropped, address) in addresses.enumerated() {
      for good in addresses where good != address {
        // After a datagram of the socket before, the next pass begins with the one whose datagram is dropped.
        try await client.send([1], to: addresses[(dropped + addresses.count - 1) % addresses.count])
        #expect(try await server.receive().bytes == [1])
        try await client.send([0], to: address)
        try await client.send([1], to: good)
        // No event announces these datagrams again.
        try await reactor.sleeps()
        #expect(try await server.receive(timeout: .zero).bytes == [1])
      }
    }
  }
}
