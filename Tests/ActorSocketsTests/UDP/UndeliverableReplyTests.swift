import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Replies that cannot be delivered because of the peer. The loops are those of the documentation.
@Suite(.conformance, .endsInTime) struct UndeliverableReplyTests {
  /// The byte of a datagram whose sender the filter hides.
  private static let mark: UInt8 = 255

  /// Makes marked datagrams come from a sender that cannot be answered: port 0, or a unix socket without a name.
  private static func hideSenders(_ configuration: inout UDPEndpoint.Configuration) {
    configuration.receiveFilter = { datagram in
      if datagram.bytes == [mark] { datagram.remoteAddress = datagram.remoteAddress?.with(port: 0) }
      return .pass
    }
  }

  private static func sendWithoutName(_ byte: UInt8, to address: SocketAddress) throws {
    let nameless = RawSocket(owning: socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
    _ = try BorrowedDescriptor(nameless.number).connect(to: address)
    try nameless.send([byte])
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A reply that cannot be delivered throws nothing, whatever sends it`(transport: DatagramTransport) async throws {
    let reactor = ConformanceReactor.current
    let (client, server, address) = try transport.pair(on: reactor, Self.hideSenders)
    try await client.send([Self.mark], to: address)
    let datagram = try await server.receive()
    await client.close()
    try await server.send(datagram.reply([1]))
    try await server.send([datagram.reply([1])])
    try await server.enqueueSend(datagram.reply([1])).value
    // On the reactor, a send needs no hop to the endpoint.
    try await Task(executorPreference: reactor) {
      for _ in 0..<3 { try await server.send(datagram.reply([1])) }
    }.value
    #expect(await server.metrics.datagramsUndelivered == 6)
    await server.close()
    var reports: [SocketError.Code] = []
    for await report in server.errors { reports.append(report.error.code) }
    let code: SocketError.Code = transport.isUnix ? .connectionRefused : .invalidArgument
    #expect(reports == Array(repeating: code, count: 6))
  }

  @Test func `A reply in place that cannot be delivered throws nothing`() async throws {
    let (client, server, address) = try DatagramTransport.unix.pair()
    try await client.send([1], to: address)
    await client.close()
    try await server.withDatagrams { endpoint, bytes, header in
      let isSent = try endpoint.sendNow(bytes, inReplyTo: header)
      #expect(!isSent)
    }
    #expect(await server.metrics.datagramsUndelivered == 1)
  }

  @Test(.inRealTime, arguments: DatagramTransport.networks)
  func `Replies to a peer that is gone throw nothing, also if no event tells of the errors before`(
    transport: DatagramTransport
  ) async throws {
    let reactor = Reactor()
    let (server, peer) = (try transport.bind(reactor: reactor), try transport.bind())
    try await server.connect(to: .address(transport.address(of: peer)))
    try await peer.send([1], to: transport.address(of: server))
    let datagram = try await server.receive()
    await peer.close()
    // In one job, so that a send finds the error of the one before.
    try await Task(executorPreference: reactor) {
      for _ in 0..<5 { try await server.send(datagram.reply([2])) }
    }.value
    let handles = await reactor.whileBlocked { (0..<5).map { _ in server.enqueueSend(datagram.reply([3])) } }
    for handle in handles { try await handle.value }
    #expect(await server.errors.next()?.error.code == .connectionRefused)
  }

  @Test(.inRealTime) func `A reply to a sender without a name does not go to the endpoint's peer`() async throws {
    let (peer, server, address) = try DatagramTransport.unix.pair()
    try Self.sendWithoutName(3, to: address)
    let datagram = try await server.receive()
    #expect(datagram.bytes == [3] && datagram.remoteAddress == nil)
    try await server.connect(to: .address(peer.localAddresses[0]))
    try await server.send(datagram.reply([4]))
    try await server.send([datagram.reply([4])])
    try await server.enqueueSend(datagram.reply([4])).value
    #expect(await server.metrics.datagramsUndelivered == 3)
    try await server.send([5])
    #expect(try await peer.receive().bytes == [5])
  }

  @Test(arguments: DatagramTransport.allCases, ReplyLoop.allCases)
  func `A sender that is gone ends no loop that replies`(transport: DatagramTransport, loop: ReplyLoop) async throws {
    // The client is bound before those that go, so that it gets no address of theirs.
    let (client, server, address) = try transport.pair()
    for number in 0..<5 as Range<UInt8> {
      let gone = try transport.bind()
      try await gone.send([number], to: address)
      await gone.close()
    }
    let serving = Task { try await loop.echo(on: server) }
    for number in 0..<20 as Range<UInt8> {
      try await client.send([number], to: address)
      #expect(try await client.receive().bytes == [number])
    }
    let report = try #require(await server.errors.next())
    #expect(report.error.code == .connectionRefused, "\(report)")
    let undelivered = await server.metrics.datagramsUndelivered
    #expect(undelivered == (transport.isUnix ? 5 : 0))
    await server.close()
    _ = try? await serving.value
  }

  @Test(
    arguments: DatagramTransport.networks, ReplyLoop.allCases.filter { $0 != .unchanged }
  )
  func `A datagram from port 0 ends no loop that replies`(transport: DatagramTransport, loop: ReplyLoop) async throws {
    // A receive filter does not see what is lent.
    if loop == .inPlace { return }
    let (client, server, address) = try transport.pair(Self.hideSenders)
    let serving = Task { try await loop.echo(on: server) }
    for number in 0..<20 as Range<UInt8> {
      try await client.send([Self.mark], to: address)
      try await client.send([number], to: address)
      #expect(try await client.receive().bytes == [number])
    }
    let report = try #require(await server.errors.next())
    #expect(report.error.code == .invalidArgument && report.error.address == nil, "\(report)")
    #expect(await server.metrics.datagramsUndelivered == 20)
    await server.close()
    _ = try? await serving.value
  }

  @Test func `With the strict option a reply that cannot be delivered throws`() async throws {
    for transport in DatagramTransport.allCases {
      let (client, server, address) = try transport.pair {
        Self.hideSenders(&$0)
        $0.throwsUndeliverableReplies = true
      }
      try await client.send([Self.mark], to: address)
      let datagram = try await server.receive()
      if transport.isUnix { await client.close() }
      let code: SocketError.Code = transport.isUnix ? .connectionRefused : .invalidArgument
      await expectError(code) { try await server.send(datagram.reply([1])) }
      await expectError(code) { try await server.enqueueSend(datagram.reply([1])).value }
      do {
        try await server.send([datagram.reply([1])])
        Issue.record("nothing was thrown")
      } catch let error as DatagramBatchError {
        #expect(error.failures.map(\.error.code) == [code])
      }
      #expect(await server.metrics.datagramsUndelivered == 0)
    }
  }

  @Test func `A reply throws errors of the program, and is no reply once it has another address`() async throws {
    for transport in DatagramTransport.allCases {
      let (client, server, address) = try transport.pair()
      try await client.send([1], to: address)
      let datagram = try await server.receive()
      for count in transport.isUnix ? [70_000] : [65_530, 70_000] {
        await expectError(.limitExceeded) { try await server.send(datagram.reply(pattern(count))) }
      }
      var other = datagram.reply([1])
      other.remoteAddress = transport.isUnix ? nil : try transport.address(of: client).with(port: 0)
      let otherReply = other
      await expectError(transport.isUnix ? .notConnected : .invalidArgument) { try await server.send(otherReply) }
      await server.close()
      await expectError(.closed) { try await server.send(datagram.reply([1])) }
      #expect(await server.metrics.datagramsUndelivered == 0)
    }
  }

  @Test(arguments: DatagramTransport.allCases, [ReplyLoop.single, .enqueued])
  func `A peer that is gone and comes back ends no loop of an endpoint that is connected to it`(
    transport: DatagramTransport, loop: ReplyLoop
  ) async throws {
    let (first, server, address) = try transport.pair()
    let peer = try transport.address(of: first)
    try await server.connect(to: .address(peer))
    for number in 0..<5 as Range<UInt8> { try await first.send([number], to: address) }
    await first.close()
    let serving = Task { try await loop.echo(on: server) }
    #expect(await server.errors.next()?.error.code == .connectionRefused)
    if !transport.isUnix {
      // A unix socket would have to connect again.
      let second = try UDPEndpoint.bind(to: .address(peer), reactor: ConformanceReactor.current)
      for number in 10..<20 as Range<UInt8> {
        try await second.send([number], to: address)
        // The last answers to the first peer may arrive before.
        var answer = try await second.receive().bytes
        while answer[0] < 10 { answer = try await second.receive().bytes }
        #expect(answer == [number])
      }
    } else {
      try await eventually("all are counted") { await server.metrics.datagramsUndelivered == 5 }
    }
    await server.close()
    _ = try? await serving.value
  }

  private static var rawObstacle: String? {
    let number = socket(AF_INET, Int32(SOCK_RAW.rawValue), Int32(IPPROTO_UDP))
    if number < 0 { return "raw sockets need CAP_NET_RAW" }
    close(number)
    return nil
  }

  private static func sendFromPortZero(to address: SocketAddress) throws {
    let number = socket(address.family, Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue), Int32(IPPROTO_UDP))
    if number < 0 { throw SystemError(call: "socket", errno: errno) }
    let raw = RawSocket(owning: number)
    let socket = BorrowedDescriptor(raw.number)
    // The kernel computes the checksum, which is the fourth field.
    if address.isIPv6 { try socket.set(SocketOption<Int32>(level: Int32(IPPROTO_IPV6), name: 7), to: 6) }
    _ = try socket.connect(to: address.with(port: 0))
    let port = address.port ?? 0
    try raw.send([0, 0, UInt8(port >> 8), UInt8(port & 0xFF), 0, 9, 0, 0, mark])
  }

  @Test(
    .inRealTime, .runs(unless: rawObstacle),
    arguments: DatagramTransport.networks, ReplyLoop.allCases)
  func `A real datagram from port 0 ends no loop that replies`(transport: DatagramTransport, loop: ReplyLoop)
    async throws
  {
    let (client, server, address) = try transport.pair()
    let serving = Task { try await loop.echo(on: server) }
    try Self.sendFromPortZero(to: address)
    try await client.send([1], to: address)
    #expect(try await client.receive().bytes == [1])
    try await eventually("it is counted") { await server.metrics.datagramsUndelivered == 1 }
    await server.close()
    _ = try? await serving.value
  }

  @Test(
    .inRealTime, .needsNamespaces, arguments: DatagramTransport.networks,
    ReplyLoop.allCases)
  func `A path that takes only short datagrams ends no loop that replies`(
    transport: DatagramTransport, loop: ReplyLoop
  ) async throws {
    let namespace = try await Namespace()
    try await namespace.ip("link set lo mtu 1280 up")
    let (server, client) = try await namespace.run {
      (try transport.bind(reactor: .shared), try transport.bind(reactor: .shared))
    }
    // IP_MTU_DISCOVER and IPV6_MTU_DISCOVER: do not divide datagrams, as servers over QUIC need it.
    if transport != .ipv6 { try await server.set(SocketOption<Int32>(level: Int32(IPPROTO_IP), name: 10), to: 2) }
    if transport != .ipv4 { try await server.set(SocketOption<Int32>(level: Int32(IPPROTO_IPV6), name: 23), to: 2) }
    let address = try transport.address(of: server)
    let serving = Task { try await loop.echo(on: server) }
    try await client.send(pattern(2_000), to: address)
    try await client.send([1], to: address)
    #expect(try await client.receive().bytes == [1])
    #expect(await server.metrics.datagramsUndelivered == 1)
    #expect(await server.errors.next()?.error.code == .limitExceeded)
    await server.close()
    _ = try? await serving.value
  }

  @Test(.inRealTime, arguments: ReplyLoop.allCases)
  func `A unix socket without a name ends no loop that replies`(loop: ReplyLoop) async throws {
    let (client, server, address) = try DatagramTransport.unix.pair()
    let serving = Task { try await loop.echo(on: server) }
    try Self.sendWithoutName(3, to: address)
    try await client.send([1], to: address)
    #expect(try await client.receive().bytes == [1])
    #expect(await server.errors.next()?.error.code == .notConnected)
    #expect(await server.metrics.datagramsUndelivered == 1)
    await server.close()
    _ = try? await serving.value
  }
}
