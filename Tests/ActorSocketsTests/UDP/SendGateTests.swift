import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// Sends by threads other than the reactor's.
@Suite(.endsInTime) struct SendGateTests {
  // MARK: The pure part

  private static let loopback = SocketAddress.ipv4(.loopback, port: 5000)
  private static let other = SocketAddress.ipv4(.loopback, port: 5001)

  private static func routes(_ peer: SocketAddress?) -> DatagramRoutes {
    let bound = BoundSocket(registration: Registration(on: .shared), address: loopback, kind: .ipv4)
    return DatagramRoutes(sockets: [bound], isOnDevice: false, peer: peer.map { ($0, 0) })
  }

  private static func open(
    peer: SocketAddress? = nil, socket: BorrowedDescriptor? = BorrowedDescriptor(7)
  ) -> SendGate.State {
    var state = SendGate.State()
    state.open(routes(peer), [socket], longest: .max)
    return state
  }

  @Test func `The gate is open for a number of datagrams, until the kernel takes one no more, or until it is closed`() {
    var state = Self.open()
    for number in 1...SendGate.State.most {
      #expect(state.isOpen)
      #expect(state.attempted(.bytes(10)) == .sent)
      #expect(state.isOpen == (number < SendGate.State.most))
    }
    let (most, bytes) = (UInt64(SendGate.State.most), UInt64(10 * SendGate.State.most))
    #expect(state.takeCounts() == SendGate.Counts(datagrams: most, bytes: bytes))
    #expect(state.takeCounts() == SendGate.Counts())

    state = Self.open()
    #expect(state.attempted(.wouldBlock) == .notSent && !state.isOpen)
    state = Self.open()
    state.close()
    #expect(!state.isOpen && state.way(to: Self.loopback, isReply: false) == nil)
  }

  @Test func `The error of an attempt is that of its call, unless it was reported meanwhile`() {
    func fail(_ state: inout SendGate.State, _ errno: Int32) -> SendAttempt {
      state.attempted(.failed(SystemError(call: "sendto", errno: errno)))
    }
    var state = Self.open()
    var errors: [UInt64] = []
    for errno in [Errno.connectionRefused, Errno.hostUnreachable] {
      state.open(Self.routes(nil), [BorrowedDescriptor(7)], longest: .max)
      if case .failed(let number) = fail(&state, errno) { errors.append(number) }
    }
    #expect(errors.count == 2 && errors[0] != errors[1])
    #expect(!state.isOpen && state.takeCounts() == SendGate.Counts())
    #expect(state.takeFailure(errors[1])?.errno == Errno.hostUnreachable)
    #expect(state.takeFailure(errors[1]) == nil)
    state.forgetFailures()
    #expect(state.takeFailure(errors[0]) == nil)
  }

  @Test func `Only a datagram that a socket can send passes`() {
    let state = Self.open()
    #expect(state.way(to: Self.other, isReply: false)?.socket.number == 7)
    #expect(state.way(to: Self.other, isReply: false)?.destination == Self.other)
    #expect(state.way(to: nil, isReply: false) == nil)
    #expect(state.way(to: Self.other.with(port: 0), isReply: false) == nil)
    #expect(state.way(to: .ipv6(.loopback, port: 7), isReply: false) == nil)
    let connected = Self.open(peer: Self.other)
    #expect(connected.way(to: nil, isReply: false)?.socket.number == 7)
    #expect(connected.way(to: Self.other, isReply: true).map { $0.destination == nil } == true)
    #expect(connected.way(to: nil, isReply: true) == nil)
    #expect(connected.way(to: Self.loopback, isReply: false) == nil)
    #expect(Self.open(socket: nil).way(to: Self.other, isReply: false) == nil)
  }

  // MARK: Endpoints

  /// An endpoint on a reactor of its own whose gate is open, and a receiver.
  private struct Scene {
    let reactor = Reactor()
    let client: UDPEndpoint
    let server: UDPEndpoint
    let address: SocketAddress

    init(_ transport: DatagramTransport, _ configuration: UDPEndpoint.Configuration = .init()) async throws {
      client = try transport.bind(configuration: configuration, reactor: reactor)
      server = try transport.bind()
      address = try transport.address(of: server)
      // This one hops.
      try await client.send([0], to: address)
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams that another thread sends need no reactor, and are counted`(transport: DatagramTransport) async throws
  {
    let scene = try await Scene(transport)
    // A unix socket has room for few datagrams.
    let count = transport.isUnix ? 6 : UInt8(SendGate.State.most)
    try await scene.reactor.whileBlocked {
      for number in 1..<count {
        if number % 2 == 0 {
          try await scene.client.send([number], to: scene.address)
        } else {
          try await scene.client.send(Datagram([number], to: scene.address), timeout: .seconds(60))
        }
      }
    }
    #expect(try await scene.server.firstBytes(Int(count), upTo: 50) == Array(0..<count))
    let metrics = await scene.client.metrics
    #expect(metrics.datagramsSent == UInt64(count) && metrics.bytesSent == UInt64(count))
    // More than the gate lets pass at once.
    for number in 0..<UInt8(200) {
      try await scene.client.send([number], to: scene.address)
      #expect(try await scene.server.receive().bytes == [number])
    }
    #expect(await scene.client.metrics.datagramsSent == UInt64(count) + 200)
  }

  /// The gate is open when these calls are made, and the reactor has not carried them out when the next one is.
  @Test(arguments: DatagramTransport.allCases)
  func `A datagram passes by no call that was made before it`(transport: DatagramTransport) async throws {
    let scene = try await Scene(transport)
    let (client, address) = (scene.client, scene.address)
    let others = await scene.reactor.whileBlocked {
      client.enqueueSend(Datagram([1], to: address))
      return (2..<5).map { number in
        Task.immediate {
          if number % 2 == 0 {
            try await client.send([UInt8(number)], to: address)
          } else {
            try await client.send([Datagram([UInt8(number)], to: address)])
          }
        }
      }
    }
    for other in others { try await other.value }
    #expect(try await scene.server.firstBytes(5, upTo: 1) == [0, 1, 2, 3, 4])

    let third = try transport.bind()
    let endpoint = Endpoint.address(try transport.address(of: third))
    try await client.send([5], to: address)
    let (connecting, sending) = await scene.reactor.whileBlocked {
      (
        Task.immediate { try await client.connect(to: endpoint) },
        Task.immediate { try await client.send([6], to: address) }
      )
    }
    try await connecting.value
    await expectError(.invalidArgument) { try await sending.value }
  }

  @Test func `Other threads send in the system of the reactor`() async throws {
    let injection = try FaultInjection()
    let client = try DatagramTransport.ipv4.bind(reactor: injection.reactor)
    let (_, server, address) = try DatagramTransport.ipv4.pair()
    try await client.send([0], to: address)
    injection.setFaults([.fail(.send, with: .networkUnreachable, probability: 1)])
    for _ in 0..<3 { await expectError(.unreachable) { try await client.send([1], to: address) } }
    injection.setFaults([])
    try await client.send([2], to: address)
    #expect(try await server.firstBytes(2, upTo: 1) == [0, 2])
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Everything that sends must obey holds for other threads as soon as its call returns`(
    transport: DatagramTransport
  ) async throws {
    let filtered = try await Scene(transport)
    await filtered.client.setSendFilter { _ in .drop }
    for _ in 0..<2 { try await filtered.client.send([1], to: filtered.address) }
    #expect(await filtered.client.metrics.datagramsFiltered == 2)
    await filtered.client.setSendFilter(nil)
    try await filtered.client.send([2], to: filtered.address)
    #expect(try await filtered.server.firstBytes(2, upTo: 1) == [0, 2])

    let connected = try await Scene(transport)
    let third = try transport.bind()
    try await connected.client.connect(to: .address(transport.address(of: third)))
    for _ in 0..<2 {
      await expectError(.invalidArgument) { try await connected.client.send([1], to: connected.address) }
      try await connected.client.send([2])
    }
    #expect(try await third.firstBytes(2, upTo: 1) == [2, 2])
    #expect(try await connected.server.firstBytes(1, upTo: 1) == [0])

    let finished = try await Scene(transport)
    await finished.client.closeAfterPendingSends()
    await expectError(.closed) { try await finished.client.send([1], to: finished.address) }
    let closed = try await Scene(transport)
    await closed.client.close()
    await expectError(.closed) { try await closed.client.send([1], to: closed.address) }
    let shutDown = try await Scene(transport)
    shutDown.reactor.shutdown()
    await expectError(.reactorShutDown) { try await shutDown.client.send([1], to: shutDown.address) }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A datagram that is too long, too late or cancelled is refused although the gate is open`(
    transport: DatagramTransport
  ) async throws {
    var configuration = UDPEndpoint.Configuration()
    configuration.maximumSendSize = 10
    let scene = try await Scene(transport, configuration)
    let (client, address) = (scene.client, scene.address)
    await expectError(.limitExceeded) { try await client.send(pattern(11), to: address) }
    await expectError(.timedOut) { try await client.send([1], to: address, timeout: .until(.now - .seconds(1))) }
    let mayGoOn = Gate()
    let cancelled = Task {
      await mayGoOn.wait()
      try await client.send([2], to: address)
    }
    cancelled.cancel()
    mayGoOn.open()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    try await client.send([3], to: address)
    #expect(try await scene.server.firstBytes(2, upTo: 1) == [0, 3])
  }

  @Test(.inRealTime)
  func `A datagram passes by no other that waits for room, although those to elsewhere leave at once`() async throws {
    // The datagram is not tried again before the time advances.
    let time = ManualTime()
    let (client, server, address, sent) = try await DatagramTransport.full(on: time.reactor)
    let other = try DatagramTransport.unix.bind()
    let elsewhere = try DatagramTransport.unix.address(of: other)
    let waiting = Task.immediate { try await client.send([100], to: address) }
    try await client.hasPending(sends: 1)
    for _ in 0..<2 { try await client.send([1], to: elsewhere) }
    #expect(try await server.receive().bytes == [0])
    let later = Task.immediate { try await client.send([101], to: address) }
    try await client.hasPending(sends: 2)
    var seen: [UInt8] = []
    while seen.count < sent + 1 {
      await time.advance(by: .seconds(1))
      seen += try await server.receive(upTo: 100).map { $0.bytes[0] }
    }
    #expect(seen == Array(1..<UInt8(sent)) + [100, 101])
    try await waiting.value
    try await later.value
    #expect(try await other.firstBytes(2, upTo: 2) == [1, 1])
  }

  @Test(arguments: DatagramTransport.networks)
  func `A peer that is gone fails one send for each report, and no more`(transport: DatagramTransport) async throws {
    let client = try transport.bind()
    try await client.connect(to: .address(try await transport.deadAddress()))
    // A datagram that left is reported at once on loopback, so each second one fails.
    for round in 0..<100 {
      try await client.send([UInt8(round)])
      await expectError(.connectionRefused) { try await client.send([UInt8(round)]) }
    }
    #expect(await client.metrics.datagramsSent == 100)
  }

  /// An endpoint whose datagram was refused while its reactor was blocked, and the attempt of another thread that met the error. The event
  /// about the refusal waits until `body` returns.
  private static func refused<Value>(
    _ transport: DatagramTransport, _ body: (_ client: UDPEndpoint, _ attempt: SendAttempt) throws -> Value
  ) async throws -> (client: UDPEndpoint, Value) {
    let reactor = Reactor()
    let client = try transport.bind(reactor: reactor)
    let peer = try transport.bind()
    try await client.connect(to: .address(transport.address(of: peer)))
    try await client.send(bytes)
    await peer.close()
    let value = try await reactor.whileBlocked {
      try await client.send(bytes)
      return try body(client, client.gate.send(bytes.span, to: nil, isReply: false))
    }
    return (client, value)
  }

  private static let bytes: [UInt8] = [1]

  @Test(.inRealTime, arguments: DatagramTransport.networks)
  func `An error that the endpoint finds first is not that of the attempt any more`(
    transport: DatagramTransport
  ) async throws {
    let (client, attempt) = try await Self.refused(transport) { $1 }
    let isFailed = if case .failed = attempt { true } else { false }
    #expect(isFailed)
    #expect(await client.errors.next()?.error.code == .connectionRefused)
    await expectError(.connectionRefused) { try await client.send(Self.bytes) }
    #expect(client.gate.takeFailure(of: attempt) == nil)
  }

  @Test(.inRealTime, arguments: DatagramTransport.networks)
  func `The error of an attempt whose call is cancelled is reported once`(transport: DatagramTransport) async throws {
    let (client, cancelled) = try await Self.refused(transport) { client, attempt in
      let task = Task.immediate { try await client.sendInTurn(Datagram(Self.bytes), nil, attempt) }
      task.cancel()
      return task
    }
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    #expect(await client.errors.next()?.error.code == .connectionRefused)
    let second = Task { await client.errors.next() }
    await expectError(.connectionRefused) { try await client.send(Self.bytes) }
    await client.close()
    #expect(await second.value == nil)
  }
}
