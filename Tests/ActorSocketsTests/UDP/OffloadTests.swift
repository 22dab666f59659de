import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Datagrams that the kernel gets or delivers together (UDP_SEGMENT, UDP_GRO): each is still sent and received by itself.
@Suite(.conformanceWithFaults, .endsInTime) struct OffloadTests {
  struct Offloads: CustomTestStringConvertible {
    let sends: Bool
    let receives: Bool
    var testDescription: String { "sending \(sends ? "on" : "off"), receiving \(receives ? "on" : "off")" }

    static let all = [(true, true), (true, false), (false, true), (false, false)].map {
      Offloads(sends: $0.0, receives: $0.1)
    }

    func change(_ configuration: inout UDPEndpoint.Configuration) {
      configuration.segmentationOffload = sends
      configuration.receiveOffload = receives
      configuration.receiveBufferSize = 4 << 20
    }

    func bind(
      _ transport: DatagramTransport, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
    ) throws -> UDPEndpoint {
      try transport.bind {
        self.change(&$0)
        change(&$0)
      }
    }

    func pair(
      _ transport: DatagramTransport = .ipv4, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
    ) throws -> (client: UDPEndpoint, server: UDPEndpoint, address: SocketAddress) {
      let server = try bind(transport, change)
      return (try bind(transport), server, try transport.address(of: server))
    }
  }

  private static let both = Offloads(sends: true, receives: true)

  private static func take(_ count: Int, from endpoint: UDPEndpoint, upTo limit: Int = 32) async throws -> [Datagram] {
    var received: [Datagram] = []
    while received.count < count {
      let more = try await endpoint.receive(upTo: min(limit, count - received.count))
      #expect(more.count <= limit)
      received += more
    }
    return received
  }

  @Test(arguments: DatagramTransport.allCases, Offloads.all)
  func `Every datagram arrives by itself, whole and in its order`(
    transport: DatagramTransport, offloads: Offloads
  ) async throws {
    let (client, server, address) = try offloads.pair(transport)
    var random = SeededRandom(seed: 7)
    for _ in 0..<30 {
      let lengths = [0, 1, 500, 1200, Int.random(in: 0...1500, using: &random), 9000]
      var sent: [Datagram] = []
      // No more than a socket has room for by default.
      while sent.count < 60 {
        let length = lengths.randomElement(using: &random) ?? 0
        for _ in 0..<(length == 9000 ? 1 : Int.random(in: 1...20, using: &random)) {
          sent.append(Datagram(pattern(length, from: sent.count), to: address))
        }
      }
      // A unix socket has room for few datagrams, so sending waits for receiving.
      let (batch, count) = (sent, sent.count)
      async let sending: Void = client.send(batch)
      let received = try await Self.take(count, from: server, upTo: Int.random(in: 1...32, using: &random))
      try await sending
      #expect(received.map(\.bytes) == sent.map(\.bytes))
      #expect(received.allSatisfy { !$0.isTruncated })
    }
    let (sent, received) = (await client.metrics, await server.metrics)
    #expect(sent.datagramsSent == received.datagramsReceived && sent.bytesSent == received.bytesReceived)
  }

  @Test(arguments: DatagramTransport.networks, Offloads.all)
  func `The kernel gets and delivers a batch as one message if both ends ask for it`(
    transport: DatagramTransport, offloads: Offloads
  ) async throws {
    let (client, server, address) = try offloads.pair(transport)
    try await client.send((0..<60).map { Datagram(pattern(1000, from: $0), to: address) })
    #expect(try await server.receive().bytes == pattern(1000))
    // One system call fetched the others: one message of 60 datagrams, or as many messages as it has room for.
    let fetched = await server.metrics.fetchedAhead
    #expect(fetched == (offloads.sends && offloads.receives ? 59 : offloads.receives ? 7 : 31))
    #expect(try await Self.take(59, from: server).map(\.bytes) == (1..<60).map { pattern(1000, from: $0) })
  }

  @Test func `Datagrams for several peers, or with different metadata, are not joined`() async throws {
    let servers = try (0..<3).map { _ in try Self.both.bind(.ipv4) { $0.metadata = [.trafficClass] } }
    let client = try Self.both.bind(.ipv4)
    var sent: [Datagram] = []
    for number in 0..<60 {
      // Rows of equal destinations, of which each second one has another traffic class.
      var datagram = Datagram(pattern(100, from: number), to: servers[number / 7 % 3].localAddresses[0])
      if number / 4 % 2 == 1 { datagram.trafficClass = .expeditedForwarding }
      sent.append(datagram)
    }
    try await client.send(sent)
    for server in servers {
      let expected = sent.filter { $0.remoteAddress == server.localAddresses[0] }
      let received = try await Self.take(expected.count, from: server)
      #expect(received.map(\.bytes) == expected.map(\.bytes))
      let classes = expected.map { $0.trafficClass ?? TrafficClass(rawValue: 0) }
      #expect(received.map { $0.trafficClass ?? TrafficClass(rawValue: 0) } == classes)
    }
  }

  @Test func `Joined datagrams have a sender, metadata and a limit, and meet the filter`() async throws {
    let (client, server, address) = try Self.both.pair {
      $0.metadata = [.localAddress, .timestamp, .hopLimit]
      $0.maximumReceiveSizeIPv4 = 80
      $0.receiveFilter = { $0.bytes[0] % 2 == 0 ? .pass : .drop }
    }
    try await client.send((0..<40).map { Datagram([$0] + pattern(99), to: address) })
    let received = try await Self.take(20, from: server)
    let even = Array(stride(from: UInt8(0), to: 40, by: 2))
    #expect(received.map { $0.bytes[0] } == even)
    for datagram in received {
      #expect(datagram.bytes.count == 80 && datagram.isTruncated)
      #expect(datagram.remoteAddress == client.localAddresses[0])
      #expect(datagram.localAddress == .ipv4(.loopback))
      #expect(datagram.timestamp != nil && datagram.hopLimit == 64)
    }
    let metrics = await server.metrics
    #expect(metrics.datagramsReceived == 40 && metrics.datagramsTruncated == 40 && metrics.datagramsFiltered == 20)
  }

  @Test func `Calls get no more datagrams than they ask for, and lose none`() async throws {
    let (client, server, address) = try Self.both.pair()
    try await client.send((0..<60).map { Datagram([$0], to: address) })
    var seen: [UInt8] = []
    #expect(try await server.withDatagrams(upTo: 5) { bytes, _ in seen.append(bytes[0]) } == 5)
    seen += try await server.receive(upTo: 3).map { $0.bytes[0] }
    await #expect(throws: Interruption.self) {
      try await server.withDatagrams { bytes, _ in
        seen.append(bytes[0])
        if bytes[0] == 11 { throw Interruption() }
      }
    }
    for try await datagram in server.datagrams {
      seen.append(datagram.bytes[0])
      if seen.count == 20 { break }
    }
    while seen.count < 60 { try await server.withDatagrams(upTo: 50) { bytes, _ in seen.append(bytes[0]) } }
    #expect(seen == Array(0..<60))
    // A call that finds an empty queue gets no more than it asks for, either.
    try await client.send((0..<60).map { Datagram([$0], to: address) })
    #expect(try await server.receive(upTo: 2).map(\.bytes) == [[0], [1]])
    #expect(try await server.receive().bytes == [2])
  }

  private struct Interruption: Error {}

  @Test func `A connected endpoint takes only its peer's datagrams, also of those that are joined`() async throws {
    let (peer, server, address) = try Self.both.pair()
    try await Self.both.bind(.ipv4).send((0..<40).map { Datagram([$0], to: address) })
    try await server.connect(to: .address(peer.localAddresses[0]))
    try await peer.send((100..<140).map { Datagram([$0], to: address) })
    #expect(try await server.firstBytes(40) == Array(100..<140))
  }

  @Test func `Of a batch only the datagram fails that cannot be sent`() async throws {
    let (client, server, address) = try Self.both.pair()
    var batch = (0..<20).map { Datagram([$0], to: address) }
    batch[7] = Datagram(pattern(65_520), to: address)
    batch[11] = Datagram([11], to: .ipv4(.loopback, port: 0))
    do {
      try await client.send(batch)
      Issue.record("two cannot be sent")
    } catch let error as DatagramBatchError {
      #expect(error.sent == 18 && error.failures.map(\.index) == [7, 11])
      #expect(error.failures.map(\.error.code) == [.limitExceeded, .invalidArgument])
    }
    let expected = (0..<20 as Range<UInt8>).filter { $0 != 7 && $0 != 11 }
    #expect(try await server.firstBytes(18) == expected)
  }

  @Test func `A socket that cannot divide messages sends all datagrams one by one`() async throws {
    // Without checksums, the kernel refuses UDP_SEGMENT.
    let withoutChecksums = SocketOption<Int32>(level: 1, name: 11)
    let server = try Self.both.bind(.ipv4)
    let client = try Self.both.bind(.ipv4) {
      $0.prepare = { socket in try socket.set(withoutChecksums, to: 1) }
    }
    for size in [1200, 600, 1200] {
      try await client.send((0..<40).map { Datagram(pattern(size, from: $0), to: server.localAddresses[0]) })
      #expect(try await Self.take(40, from: server).map(\.bytes) == (0..<40).map { pattern(size, from: $0) })
    }
    #expect(await client.metrics.datagramsSent == 120)
  }

  @Test func `Sends that waited are joined, too, and each call returns`() async throws {
    let (client, server, address) = try Self.both.pair()
    let handles = (0..<60 as Range<UInt8>).map { client.enqueueSend(Datagram([$0, $0], to: address)) }
    for handle in handles { try await handle.value }
    #expect(try await Self.take(60, from: server).map(\.bytes) == (0..<60).map { [$0, $0] })
  }

  @Test(arguments: [DatagramTransport.ipv4, .ipv6])
  func `A batch that no socket receives is reported, and the endpoint stays usable`(
    transport: DatagramTransport
  ) async throws {
    let nobody = try await transport.deadAddress()
    let client = try Self.both.bind(transport)
    try await client.send((0..<30).map { Datagram([$0], to: nobody) })
    let report = try #require(await client.errors.next())
    #expect(report.error.code == .connectionRefused && report.error.address == nobody)
    let server = try Self.both.bind(transport)
    try await client.send((0..<30).map { Datagram([$0], to: try transport.address(of: server)) })
    #expect(try await server.firstBytes(30) == Array(0..<30))
  }

  @Test(.needsNamespaces, arguments: Offloads.all)
  func `Datagrams longer than a packet of their path arrive, and shorter ones are still joined`(
    offloads: Offloads
  ) async throws {
    // The cable has packets of 1,500 bytes.
    let (near, far) = try await Namespace.pair()
    @Sendable func bind(_ network: Namespace, _ address: String) async throws -> UDPEndpoint {
      try await network.run {
        try UDPEndpoint.bind(to: .host(address, port: 0), configuration: .changed(offloads.change))
      }
    }
    let client = try await bind(near, "192.0.2.1")
    let server = try await bind(far, "192.0.2.2")
    let address = server.localAddresses[0]
    for size in [3000, 1200, 1472, 1473, 1200] {
      try await client.send((0..<40).map { Datagram(pattern(size, from: $0), to: address) })
      #expect(try await server.receive().bytes == pattern(size))
      let fetched = await server.metrics.fetchedAhead
      if offloads.sends, offloads.receives, size <= 1472 { #expect(fetched == 39, "\(size) bytes") }
      #expect(
        try await Self.take(39, from: server).map(\.bytes) == (1..<40).map { pattern(size, from: $0) },
        "\(size) bytes")
    }
    #expect(await client.metrics.datagramsSent == 200)
  }

  @Test(.needsNamespaces) func `A batch to a group reaches its members one by one`() async throws {
    let (near, far) = try await Namespace.pair()
    let group = try IPAddress(parsing: "239.255.1.2")
    @Sendable func bind(_ network: Namespace) async throws -> UDPEndpoint {
      let reactor = Reactor()
      try await network.enter(reactor)
      try await network.ip("route add 239.0.0.0/8 dev cable")
      return try await network.run {
        try UDPEndpoint.bind(
          to: .host("0.0.0.0", port: 0), configuration: .changed(Self.both.change), reactor: reactor)
      }
    }
    let server = try await bind(far)
    let client = try await bind(near)
    let port = server.localAddresses[0].port ?? 0
    try await server.join(group, on: "cable")
    try await client.send((0..<40).map { Datagram(pattern(700, from: $0), to: group.socketAddress(port: port)) })
    #expect(try await Self.take(40, from: server).map(\.bytes) == (0..<40).map { pattern(700, from: $0) })
  }
}
