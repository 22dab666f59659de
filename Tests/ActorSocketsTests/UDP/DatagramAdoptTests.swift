import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Datagram sockets that other code has made.
@Suite(.conformance, .endsInTime, .tags(.manualMemory)) struct DatagramAdoptTests {
  private func socket(_ transport: DatagramTransport) throws -> OwnedDescriptor {
    let family = transport.isUnix ? SocketKind.unix : transport == .ipv4 ? SocketKind.ipv4 : SocketKind.ipv6
    let socket = try OwnedDescriptor.datagramSocket(family: family)
    if family == SocketKind.ipv6 { try socket.socket.set(RawOption.ipv6Only, to: transport == .ipv6 ? 1 : 0) }
    return socket
  }

  private func boundSocket(_ transport: DatagramTransport) throws -> OwnedDescriptor {
    let socket = try socket(transport)
    let address: SocketAddress =
      switch transport {
      case .ipv4: .ipv4(.loopback, port: 0)
      case .ipv6: .ipv6(.loopback, port: 0)
      case .dualToIPv4, .dualToIPv6: .ipv6(.any, port: 0)
      case .unix: .unix(try UnixPath(parsing: ""))
      }
    try socket.socket.bind(to: address)
    return socket
  }

  private func adopt(
    _ socket: consuming OwnedDescriptor, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
  ) throws -> UDPEndpoint {
    try UDPEndpoint.adopt(
      fileDescriptor: socket.release(), configuration: .changed(change), reactor: ConformanceReactor.current)
  }

  /// The address in the form that a socket of the transport needs.
  private func form(_ address: SocketAddress, for transport: DatagramTransport) -> SocketAddress {
    guard transport == .dualToIPv4, case .ipv4(let ipv4, let port) = address else { return address }
    return .ipv6(IPv6Address(mapped: ipv4), port: port)
  }

  // MARK: Families

  @Test(arguments: DatagramTransport.allCases)
  func `A bound socket of any family can be adopted, with what waits in it`(
    transport: DatagramTransport
  ) async throws {
    let socket = try boundSocket(transport)
    let local = try #require(try socket.socket.localAddress())
    let client = try transport.bind()
    let target = local.isUnix ? local : try transport.address(of: client).with(port: try #require(local.port))
    try await client.send([1], to: target)
    let endpoint = try adopt(socket)
    #expect(endpoint.localAddresses == [local] && endpoint.localAddress == local && endpoint.port == local.port)
    #expect(!endpoint.isConnected && endpoint.remoteAddress == nil)
    #expect(endpoint.isIPv4 == ![.ipv6, .unix].contains(transport))
    #expect(endpoint.isIPv6 == ![.ipv4, .unix].contains(transport))
    try await client.send([2], to: target)
    for number in 1...2 as ClosedRange<UInt8> {
      let question = try await endpoint.receive()
      #expect(question.bytes == [number])
      try await endpoint.send(question.reply([number, number]))
      let answer = try await client.receive()
      #expect(answer.bytes == [number, number] && answer.remoteAddress == target)
    }
    await endpoint.close()
    await expectError(.closed) { _ = try await endpoint.receive() }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A connected socket is an endpoint with a peer`(transport: DatagramTransport) async throws {
    let (peer, other) = (try transport.bind(), try transport.bind())
    let address = try transport.address(of: peer)
    let socket = transport.isUnix ? try boundSocket(transport) : try socket(transport)
    _ = try socket.socket.connect(to: form(address, for: transport))
    let local = try #require(try socket.socket.localAddress()).unmapped
    let endpoint = try adopt(socket)
    #expect(endpoint.isConnected && endpoint.remoteAddress == address)
    #expect(endpoint.localAddress == local && endpoint.localAddresses == [local])
    #expect(endpoint.isIPv4 == address.isIPv4 && endpoint.isIPv6 == address.isIPv6)
    try await endpoint.send([1])
    try await endpoint.send([2], to: address)
    #expect(try await peer.firstBytes(1, upTo: 1) == [1])
    try await peer.send(peer.receive().reply([3]))
    let answer = try await endpoint.receive()
    #expect(answer.bytes == [3] && answer.remoteAddress == address)
    await expectError(.invalidArgument) { try await endpoint.send([4], to: transport.address(of: other)) }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A socket that was connected elsewhere gets another peer, and keeps its port`(
    transport: DatagramTransport
  ) async throws {
    let (first, second) = (try transport.bind(), try transport.bind())
    let socket = transport.isUnix ? try boundSocket(transport) : try socket(transport)
    _ = try socket.socket.connect(to: form(transport.address(of: first), for: transport))
    let endpoint = try adopt(socket)
    let port = endpoint.port
    try await endpoint.connect(to: .address(transport.address(of: second)))
    try await endpoint.send([1])
    let datagram = try await second.receive()
    #expect(datagram.bytes == [1] && datagram.remoteAddress?.port == port)
    try await second.send(datagram.reply([2]))
    #expect(try await endpoint.receive().bytes == [2])
  }

  @Test func `A socket for both families that was connected elsewhere gets a peer of the other family`() async throws {
    for (from, to) in [(DatagramTransport.dualToIPv4, DatagramTransport.ipv6), (.dualToIPv6, .ipv4)] {
      let (first, second) = (try from.bind(), try to.bind())
      let socket = try socket(from)
      _ = try socket.socket.connect(to: form(from.address(of: first), for: from))
      let endpoint = try adopt(socket)
      let port = endpoint.port
      try await endpoint.connect(to: .address(to.address(of: second)))
      try await endpoint.send([1])
      #expect(try await second.receive().remoteAddress?.port == port)
      #expect(endpoint.isIPv4 == (to == .ipv4) && endpoint.isIPv6 == (to == .ipv6))
    }
  }

  @Test(.inRealTime) func `The ends of a socketpair, which have no names, answer each other`() async throws {
    var ends: [Int32] = [-1, -1]
    // SAFETY: socketpair writes two ints, which the array has.
    try #require(unsafe socketpair(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0, &ends) == 0)
    let (near, far) = (try UDPEndpoint.adopt(fileDescriptor: ends[0]), try UDPEndpoint.adopt(fileDescriptor: ends[1]))
    #expect(near.isConnected && !near.isIPv4 && !near.isIPv6 && near.port == nil)
    for number in 0..<3 as Range<UInt8> {
      try await near.send([number])
      let question = try await far.receive()
      #expect(question.bytes == [number] && question.remoteAddress == nil)
      try await far.send(question.reply([number, number]))
      #expect(try await near.receive().bytes == [number, number])
    }
    try await near.send((3..<6 as Range<UInt8>).map { Datagram([$0]) })
    var answered = 0
    while answered < 3 {
      answered += try await far.withDatagrams { far, bytes, header in
        let isSent = try far.sendNow(bytes, inReplyTo: header)
        #expect(isSent)
      }
    }
    let answers = try await near.receive(upTo: 3)
    try await near.send(answers.map { $0.reply($0.bytes) })
    #expect(try await far.firstBytes(3) == [3, 4, 5])
    for endpoint in [near, far] { #expect(await endpoint.metrics.datagramsUndelivered == 0) }
    await far.close()
    await expectError(.connectionRefused) { try await near.send([9]) }
  }

  @Test(arguments: DatagramTransport.networks)
  func `A socket that is not bound gets a free port`(transport: DatagramTransport) async throws {
    let endpoint = try adopt(socket(transport))
    let port = try #require(endpoint.port)
    #expect(port > 0 && endpoint.localAddresses.map(\.port) == [port])
    let client = try transport.bind()
    try await client.send([1], to: transport.address(of: client).with(port: port))
    try await endpoint.send(endpoint.receive().reply([2]))
    #expect(try await client.receive().bytes == [2])
  }

  @Test func `A unix socket without a name sends, and cannot be answered`() async throws {
    let server = try DatagramTransport.unix.bind()
    let endpoint = try adopt(socket(.unix))
    #expect(!endpoint.isConnected && endpoint.port == nil)
    try await endpoint.send([1], to: DatagramTransport.unix.address(of: server))
    let datagram = try await server.receive()
    #expect(datagram.bytes == [1] && datagram.remoteAddress == nil)
    try await server.send(datagram.reply([2]))
    #expect(await server.metrics.datagramsUndelivered == 1)
  }

  // MARK: Ownership

  @Test func `A socket with a refused configuration stays the caller's, as it was`() async throws {
    let changes: [(inout UDPEndpoint.Configuration) -> Void] = [
      { $0.maximumReceiveSizeIPv4 = 0 }, { $0.maximumReceiveSizeIPv6 = 65_536 }, { $0.maximumSendSize = -1 },
      { $0.descriptorsPerDatagram = 254 }, { $0.receiveBufferSize = -1 },
    ]
    for change in changes {
      let socket = try socket(.ipv4)
      let flags = fcntl(socket.number, F_GETFL)
      await expectError(.invalidArgument) {
        _ = try UDPEndpoint.adopt(fileDescriptor: socket.number, configuration: .changed(change))
      }
      #expect(fcntl(socket.number, F_GETFL) == flags)
      #expect(try socket.socket.localAddress()?.port == 0)
      #expect(try socket.socket.get(RawOption.errors(isIPv4: true)) == 0)
      // It is still open, and can be adopted.
      await (try adopt(socket)).close()
    }
  }

  @Test(.inRealTime) func `An adopted socket is nonblocking, and child processes do not inherit it`() async throws {
    let number = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
    let endpoint = try UDPEndpoint.adopt(fileDescriptor: number)
    #expect(try await endpoint.withFileDescriptor { $0 } == number)
    #expect(fcntl(number, F_GETFL) & O_NONBLOCK != 0 && fcntl(number, F_GETFD) == FD_CLOEXEC)
    await endpoint.close()
    #expect(fcntl(number, F_GETFD) == -1)
  }

  @Test(.inRealTime)
  func `A closed endpoint leaves its socket to others, wakes the reactor no more, and leaves the file`()
    async throws
  {
    let folder = try SocketFolder()
    let address = SocketAddress.unix(try UnixPath(parsing: folder()))
    let socket = try OwnedDescriptor.datagramSocket(family: AF_UNIX)
    try socket.socket.bind(to: address)
    let kept = OwnedDescriptor(owning: dup(socket.number))
    let endpoint = try adopt(socket)
    #expect(endpoint.localAddresses == [address])
    try await eventually("it is registered") { try epollsWatching(kept.number) == 1 }
    await endpoint.close()
    #expect(try epollsWatching(kept.number) == 0)
    #expect(folder.names == ["socket"])
    let client = try DatagramTransport.unix.bind()
    try await client.send([7], to: address)
    let next = try adopt(kept)
    #expect(try await next.receive().bytes == [7])
  }

  @Test(.inRealTime) func `An adopted endpoint is closed with its reactor`() async throws {
    let reactor = Reactor()
    reactor.shutdown()
    let endpoint = try UDPEndpoint.adopt(fileDescriptor: boundSocket(.ipv4).release(), reactor: reactor)
    await expectError(.reactorShutDown) { _ = try await endpoint.receive() }
  }

  // MARK: The configuration

  @Test(arguments: DatagramTransport.networks)
  func `Settings for any time apply, and those for before bind are ignored`(transport: DatagramTransport) async throws {
    let endpoint = try adopt(boundSocket(transport)) {
      $0.metadata = [.localAddress, .hopLimit]
      $0.receiveBufferSize = 100_000
      $0.sendBufferSize = 50_000
      $0.broadcast = true
      $0.maximumReceiveSizeIPv4 = 10
      $0.maximumReceiveSizeIPv6 = 10
      $0.label = "adopted"
      $0.receiveFilter = { $0.bytes[0] == 0 ? .drop : .pass }
      $0.ipv6Only = true
      $0.device = "no such device"
      $0.permissions = 0o10_000
      $0.prepare = { _ in throw CancellationError() }
    }
    #expect(endpoint.label == "adopted")
    #expect(try await endpoint.get(.receiveBufferSize) >= 100_000)
    #expect(try await endpoint.get(.sendBufferSize) >= 50_000)
    #expect(try await endpoint.get(.broadcast))
    #expect(try await !endpoint.get(.multicastAll))
    let client = try transport.bind()
    let target = try transport.address(of: client).with(port: try #require(endpoint.port))
    for first in 0...1 as ClosedRange<UInt8> { try await client.send([first] + pattern(20), to: target) }
    let datagram = try await endpoint.receive()
    #expect(datagram.bytes == [1] + pattern(20).prefix(9) && datagram.isTruncated)
    #expect(datagram.localAddress == IPAddress(target) && datagram.hopLimit != nil && datagram.timestamp == nil)
  }

  @Test func `Datagrams get no metadata that only the maker of the socket wanted`() async throws {
    let socket = try boundSocket(.unix)
    try socket.socket.set(RawOption.receivesCredentials, to: 1)
    let endpoint = try adopt(socket)
    let client = try DatagramTransport.unix.bind()
    try await client.send([1], to: try #require(endpoint.localAddress))
    let datagram = try await endpoint.receive()
    #expect(datagram.peerCredentials == nil && !datagram.lacksDescriptors)
  }

  @Test(.inRealTime) func `The kernel joins and divides datagrams only as the endpoint wants it`() async throws {
    let socket = try boundSocket(.ipv4)
    try socket.socket.set(RawOption.joinsReceived, to: 1)
    try socket.socket.set(RawOption.segmentSize, to: 100)
    let endpoint = try adopt(socket)
    let client = try DatagramTransport.ipv4.bind()
    let (here, there) = (try #require(endpoint.localAddress), try DatagramTransport.ipv4.address(of: client))
    try await client.send((0..<8 as Range<UInt8>).map { Datagram([$0] + pattern(2_999), to: here) })
    var received: [Datagram] = []
    while received.count < 8 { received += try await endpoint.receive(upTo: 32) }
    #expect(received.map { $0.bytes[0] } == Array(0..<8) && received.allSatisfy { $0.bytes.count == 3_000 })
    try await endpoint.send(pattern(250), to: there)
    #expect(try await client.receive().bytes == pattern(250))
  }
}
