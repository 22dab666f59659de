import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct DatagramMetadataTests {
  @Test(arguments: DatagramTransport.networks)
  func `Chosen metadata comes with each datagram, and can be sent along`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair {
      $0.metadata = [.localAddress, .trafficClass, .hopLimit, .timestamp]
    }
    var before = timespec()
    // SAFETY: the call fills in one such value.
    unsafe clock_gettime(CLOCK_REALTIME, &before)
    try await client.send([1], to: address)
    let plain = try await server.receive()
    #expect(plain.localAddress == IPAddress(address))
    #expect(plain.interfaceIndex == 1)
    #expect(plain.hopLimit == 64 && plain.trafficClass == .bestEffort)
    let time = try #require(plain.timestamp)
    #expect(time >= .seconds(before.tv_sec) && time < .seconds(before.tv_sec + 600))

    var special = Datagram([2], to: address)
    special.trafficClass = TrafficClass(rawValue: TrafficClass.expeditedForwarding.rawValue | 1)
    special.hopLimit = 7
    try await client.send(special)
    let marked = try await server.receive()
    #expect(marked.hopLimit == 7)
    #expect(marked.trafficClass?.codePoint == 46 && marked.trafficClass?.congestion == 1)
    // Several at once, and each with its own.
    try await client.send(
      (1...20).map { number in
        var datagram = Datagram([UInt8(number)], to: address)
        datagram.hopLimit = UInt8(number)
        return datagram
      })
    var all: [Datagram] = []
    while all.count < 20 { all += try await server.receive(upTo: 20) }
    let limits: [UInt8?] = Array(1...20)
    #expect(all.map(\.hopLimit) == limits)
    try await server.send(marked.reply([3]))
    #expect(try await client.receive().remoteAddress == address)
  }

  @Test func `An answer comes from the address that was asked`() async throws {
    let server = try UDPEndpoint.bind(to: .port(0), configuration: .changed { $0.metadata = .localAddress })
    let port = try #require(server.localAddresses[0].port)
    let client = try DatagramTransport.ipv4.bind()
    for host in ["127.0.0.1", "127.0.0.2", "127.9.8.7"] {
      let address = SocketAddress.ipv4(try #require(IPv4Address(host)), port: port)
      try await client.send([1], to: address)
      try await server.send(server.receive().reply([2]))
      #expect(try await client.receive().remoteAddress == address)
    }
  }

  @Test func `Without being asked for, nothing comes along`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    try await client.send([1], to: address)
    let datagram = try await server.receive()
    #expect(datagram.localAddress == nil && datagram.hopLimit == nil && datagram.trafficClass == nil)
    #expect(datagram.timestamp == nil && datagram.interfaceIndex == 0 && datagram.annotation == nil)
  }

  @Test func `Filters drop, change and annotate`() async throws {
    let server = try DatagramTransport.ipv4.bind {
      $0.receiveFilter = { datagram in
        if datagram.bytes.first == 1 { return .drop }
        datagram.annotation = datagram.bytes.count
        datagram.bytes.append(99)
        return .pass
      }
    }
    let client = try DatagramTransport.ipv4.bind {
      $0.sendFilter = { datagram in
        if datagram.bytes.first == 2 { return .drop }
        datagram.bytes.append(98)
        return .pass
      }
    }
    let address = server.localAddresses[0]
    let receiving = Task.immediate {
      var all: [Datagram] = []
      for try await datagram in server.datagrams {
        all.append(datagram)
        if all.count == 3 { break }
      }
      return all
    }
    // More than one turn's worth of those that are dropped.
    for round in 1...20 {
      try await client.send((0..<30).map { _ in Datagram([1], to: address) })
      try await eventually("they are dropped") { await server.metrics.datagramsFiltered == UInt64(round) * 30 }
    }
    try await client.send([2], to: address)
    try await client.enqueueSend(Datagram([2], to: address)).value
    try await client.send([Datagram([3], to: address), Datagram([2], to: address), Datagram([4], to: address)])
    try await client.enqueueSend(Datagram([5], to: address)).value
    for (number, datagram) in zip([3, 4, 5] as [UInt8], try await receiving.value) {
      #expect(datagram.bytes == [number, 98, 99] && datagram.annotation as? Int == 2)
    }
    #expect(await client.metrics.datagramsFiltered == 3)
    await client.setSendFilter(nil)
    await server.setReceiveFilter(nil)
    try await client.send([1], to: address)
    #expect(try await server.receive().bytes == [1])
  }

  @Test(.inRealTime)
  func `A unix endpoint removes its file, and replaces only a file that no program has open`() async throws {
    let folder = try SocketFolder()
    let path = folder()
    let server = try UDPEndpoint.bind(to: .unix(path: path), configuration: .changed { $0.permissions = 0o600 })
    #expect(FileFacts(path)?.permissions == 0o600)
    await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: .unix(path: path)) }
    let client = try await UDPEndpoint.connect(to: .unix(path: path))
    try await client.send([1])
    let question = try await server.receive()
    try await server.send(question.reply([2]))
    #expect(try await client.receive().bytes == [2])
    await server.close()
    #expect(FileFacts(path) == nil)
    await expectError(.connectionRefused) { try await client.send([5]) }

    try RawSocket.bound(to: path, type: SOCK_DGRAM).close()
    try await eventually("nobody has it open") { (try? UDPEndpoint.bind(to: .unix(path: path))) != nil }
    let stream = try RawSocket.listening(on: .unix(UnixPath(parsing: folder("stream"))))
    let other = try UDPEndpoint.bind(to: .unix(path: "@\(path)"))
    await expectError(.pathNotFound) { try await other.send([5], to: .unix(path: folder("none"))) }
    await expectError(.invalidArgument) { try await other.send([5], to: .unix(UnixPath(parsing: ""))) }
    let error = await expectError(.system) { try await other.send([1], to: .unix(path: folder("stream"))) }
    #expect("\(error)".contains("is not a datagram socket"))
    withExtendedLifetime(stream) {}
  }

  @Test func `Endpoints bind to what they are told`() async throws {
    let both = try UDPEndpoint.bind(to: .host("localhost", port: 0))
    #expect(both.localAddresses.count == 2 && Set(both.localAddresses.map(\.port)).count == 1)
    #expect(both.isIPv4 && both.isIPv6)
    let client = try UDPEndpoint.bind()
    for address in both.localAddresses {
      try await client.send([1], to: address)
      let datagram = try await both.receive()
      try await both.send(datagram.reply([2]))
      #expect(try await client.receive().remoteAddress == address)
    }
    for (preference, isIPv4) in [(AddressPreference.ipv4Only, true), (.ipv6Only, false)] {
      let one = try UDPEndpoint.bind(configuration: .changed { $0.addressPreference = preference })
      #expect(one.isIPv4 == isIPv4 && one.isIPv6 == !isIPv4)
    }
    await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: .address(both.localAddresses[0])) }
    await expectError(.hostNotFound) { _ = try UDPEndpoint.bind(to: .host("no-such-interface", port: 0)) }
    let configuration = UDPEndpoint.Configuration.changed { $0.reusePort = true }
    let shared = try UDPEndpoint.bind(to: .port(0), configuration: configuration)
    _ = try UDPEndpoint.bind(to: .port(shared.localAddresses[0].port ?? 0), configuration: configuration)
    struct No: Error {}
    await expectError(.rejected) {
      _ = try UDPEndpoint.bind(configuration: .changed { $0.prepare = { _ in throw No() } })
    }
    await expectError(.permissionDenied) { try await client.send([1], to: .ipv4(.broadcast, port: 9)) }
    #expect(try await client.get(.receiveBufferSize) > 0)
    #expect(try await client.withFileDescriptor { $0 } >= 0)
    #expect("\(client)".contains("\(client.id)"))
  }
}
