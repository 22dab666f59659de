import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Groups, in networks of the tests' own.
@Suite(.serialized, .needsNamespaces, .endsInTime) struct MulticastTests {
  /// A machine: its network, and a reactor that is in it, where names of interfaces are looked up.
  private struct Machine {
    let namespace: Namespace
    let reactor = Reactor()

    func bind(
      port: UInt16 = 0, _ change: @escaping @Sendable (inout UDPEndpoint.Configuration) -> Void = { _ in }
    ) async throws -> UDPEndpoint {
      try await namespace.run {
        try UDPEndpoint.bind(to: .port(port), configuration: .changed(change), reactor: reactor)
      }
    }
  }

  /// Two machines with a cable; each has a second one, whose ends are both its own.
  private struct Network {
    let near: Machine
    let far: Machine
    let source: IPAddress
    let group: IPAddress
    let other: IPAddress

    init(_ family: AddressFamily) async throws {
      let (near, far) = try await Namespace.pair()
      for (namespace, number) in [(near, 1), (far, 2)] {
        try await namespace.ip(
          "address add 2001:db8::\(number)/64 dev cable nodad", "link set lo up",
          "link add more type veth peer name end", "link set more up", "link set end up")
        try await namespace.receives(at: "2001:db8::\(number)")
      }
      self.near = Machine(namespace: near)
      self.far = Machine(namespace: far)
      try await near.enter(self.near.reactor)
      try await far.enter(self.far.reactor)
      let isIPv4 = family == .ipv4
      source = try IPAddress(parsing: isIPv4 ? "192.0.2.1" : "2001:db8::1")
      group = try IPAddress(parsing: isIPv4 ? "239.255.1.2" : "ff15::12")
      other = try IPAddress(parsing: isIPv4 ? "239.255.1.3" : "ff15::13")
    }
  }

  /// Sends numbers to a group until one arrives: a switch, or the kernel, may take its time to hear of a member.
  private static func arrives(
    _ client: UDPEndpoint, _ server: UDPEndpoint, _ address: SocketAddress
  ) async throws -> Datagram {
    var arrived: Datagram?
    try await eventually("one arrives") {
      try await client.send([42], to: address)
      arrived = try? await server.receive(timeout: .milliseconds(20))
      return arrived != nil
    }
    return try #require(arrived)
  }

  /// Sends to a group, and then to the endpoint itself: what arrives first tells whether it is a member.
  private static func isMember(
    _ server: UDPEndpoint, _ client: UDPEndpoint, _ group: SocketAddress, _ own: SocketAddress
  ) async throws -> Bool {
    try await client.send([1], to: group)
    try await client.send([2], to: own)
    var isMember = false
    while true {
      let datagram = try await server.receive()
      if datagram.bytes == [2] { return isMember }
      if datagram.bytes == [1] { isMember = true }
    }
  }

  @Test(arguments: AddressFamily.allCases)
  func `A group is heard by those who joined it, for as long as they are in it`(family: AddressFamily) async throws {
    let network = try await Network(family)
    let server = try await network.far.bind { $0.metadata = [.localAddress, .hopLimit] }
    let client = try await network.near.bind()
    let port = try #require(server.localAddresses[0].port)
    let own = try IPAddress(parsing: family == .ipv4 ? "192.0.2.2" : "2001:db8::2").socketAddress(port: port)
    let group = network.group.socketAddress(port: port)
    try await client.setMulticastInterface("cable")
    #expect(try await !Self.isMember(server, client, group, own))

    try await server.join(network.group, on: "cable")
    let datagram = try await Self.arrives(client, server, group)
    #expect(datagram.localAddress == network.group && datagram.hopLimit == 1)
    let address = try #require(datagram.remoteAddress.flatMap { IPAddress($0) })
    #expect(address == network.source || address.description.hasPrefix("fe80"), "\(address)")
    #expect(try await Self.isMember(server, client, group, own))
    // Another group of the same port, which another endpoint of the machine has joined.
    let neighbour = try await network.far.bind()
    try await neighbour.join(network.other, on: "cable")
    #expect(try await !Self.isMember(server, client, network.other.socketAddress(port: port), own))

    // An answer, which comes from no group.
    try await server.send(datagram.reply([3]))
    var answer = try await client.receive()
    while answer.bytes != [3] { answer = try await client.receive() }
    #expect(answer.remoteAddress?.isMulticast == false)

    await expectError(.alreadyJoined) { try await server.join(network.group, on: "cable") }
    try await server.leave(network.group, on: "cable")
    #expect(try await !Self.isMember(server, client, group, own))
    await expectError(.notJoined) { try await server.leave(network.group, on: "cable") }
  }

  @Test(arguments: AddressFamily.allCases)
  func `Of a group only the sources are heard that were asked for`(family: AddressFamily) async throws {
    let network = try await Network(family)
    let server = try await network.far.bind()
    let client = try await network.near.bind()
    let port = try #require(server.localAddresses[0].port)
    let isIPv4 = family == .ipv4
    let own = try IPAddress(parsing: isIPv4 ? "192.0.2.2" : "2001:db8::2").socketAddress(port: port)
    // IPv6 chooses a link-local address for a group by itself.
    func datagram(_ byte: UInt8, from source: IPAddress) -> Datagram {
      var datagram = Datagram([byte], to: network.group.socketAddress(port: port))
      datagram.localAddress = source
      return datagram
    }
    try await network.near.namespace.ip(
      isIPv4 ? "address add 192.0.2.3/24 dev cable" : "address add 2001:db8::3/64 dev cable nodad")
    if !isIPv4 { try await network.near.namespace.receives(at: "2001:db8::3") }
    let stranger = try IPAddress(parsing: isIPv4 ? "192.0.2.3" : "2001:db8::3")
    try await client.setMulticastInterface("cable")
    try await server.join(network.group, on: "cable", source: network.source)
    await expectError(.alreadyJoined) {
      try await server.join(network.group, on: "cable", source: network.source)
    }
    var arrived: [UInt8] = []
    try await eventually("the one source is heard") {
      try await client.send(datagram(2, from: stranger))
      try await client.send(datagram(1, from: network.source))
      try await client.send([0], to: own)
      while true {
        let bytes = try await server.receive().bytes
        if bytes == [0] { return arrived.contains(1) }
        arrived += bytes
      }
    }
    #expect(!arrived.contains(2))
    try await server.join(network.group, on: "cable", source: stranger)
    try await eventually("both sources are heard") {
      try await client.send(datagram(2, from: stranger))
      try await client.send([0], to: own)
      while true {
        let bytes = try await server.receive().bytes
        if bytes == [0] { return arrived.contains(2) }
        arrived += bytes
      }
    }
    try await server.leave(network.group, on: "cable", source: stranger)
    await expectError(.notJoined) { try await server.leave(network.group, on: "cable", source: stranger) }
  }

  @Test(arguments: AddressFamily.allCases)
  func `How far a group reaches, and whether this machine hears it, is an option`(family: AddressFamily) async throws {
    let network = try await Network(family)
    let server = try await network.near.bind { $0.metadata = .hopLimit }
    let client = try await network.near.bind()
    let port = try #require(server.localAddresses[0].port)
    let own = SocketAddress.ipv4(.loopback, port: port)
    let group = network.group.socketAddress(port: port)
    try await server.join(network.group, on: "cable")
    try await client.setMulticastInterface("cable")
    #expect(try await Self.isMember(server, client, group, own))
    try await client.set(.multicastTimeToLive, to: 9)
    #expect(try await Self.arrives(client, server, group).hopLimit == 9)
    try await client.set(.multicastLoopback, to: false)
    #expect(try await client.get(.multicastLoopback) == false)
    while (try? await server.receive(timeout: .zero)) != nil {}
    #expect(try await !Self.isMember(server, client, group, own))
    await expectError(.invalidArgument) { try await client.set(.multicastTimeToLive, to: 256) }
  }

  @Test func `An interface is named by its name, its number or its address`() async throws {
    let network = try await Network(.ipv4)
    let endpoint = try await network.near.bind()
    let index = try await network.near.namespace.run {
      try NetworkInterface.all().first { $0.name == "cable" }?.index
    }
    for interface in ["cable", "192.0.2.1", .index(try #require(index))] as [InterfaceSelector] {
      try await endpoint.join(network.group, on: interface)
      try await endpoint.leave(network.group, on: interface)
      try await endpoint.setMulticastInterface(interface)
    }
    for interface in ["nothing", "192.0.2.99", .index(4711), ""] as [InterfaceSelector] {
      await expectError(.interfaceNotFound) { try await endpoint.join(network.group, on: interface) }
      await expectError(.interfaceNotFound) { try await endpoint.setMulticastInterface(interface) }
    }
    await expectError(.invalidArgument) { try await endpoint.join(.ipv4(.loopback)) }
    await expectError(.invalidArgument) { try await endpoint.join(network.group, source: .ipv6(.loopback)) }
    await expectError(.interfaceNotFound) { try await endpoint.join(network.group) }
    let four = try await network.near.bind { $0.addressPreference = .ipv4Only }
    await expectError(.familyNotSupported) { try await four.join(IPAddress(parsing: "ff15::1"), on: "cable") }
    // It lives on.
    try await endpoint.send([1], to: .ipv4(.loopback, port: try #require(endpoint.localAddresses[0].port)))
    #expect(try await endpoint.receive().bytes == [1])
    await endpoint.close()
    await expectError(.closed) { try await endpoint.join(network.group, on: "cable") }
  }

  @Test(arguments: AddressFamily.allCases)
  func `An interface without multicast does no harm`(family: AddressFamily) async throws {
    let network = try await Network(family)
    let endpoint = try await network.near.bind()
    let port = try #require(endpoint.localAddresses[0].port)
    try await network.near.namespace.ip("link set cable multicast off", "link set more multicast off")
    // Linux does not mind, as long as the interface has an address.
    for interface in ["cable", "more"] as [InterfaceSelector] {
      try await endpoint.join(network.group, on: interface)
      try await endpoint.setMulticastInterface(interface)
      do {
        try await endpoint.send([1], to: network.other.socketAddress(port: 9))
      } catch let error as SocketError {
        #expect(error.code == .addressNotAvailable || error.code == .unreachable, "\(error)")
      }
      try await endpoint.send([2], to: .ipv4(.loopback, port: port))
      #expect(try await endpoint.receive().bytes == [2])
    }
  }

  @Test func `A broadcast reaches everybody, if it is allowed`() async throws {
    let network = try await Network(.ipv4)
    let server = try await network.far.bind()
    let port = try #require(server.localAddresses[0].port)
    let everybody = SocketAddress.ipv4(IPv4Address(192, 0, 2, 255), port: port)
    let silent = try await network.near.bind()
    let error = await expectError(.permissionDenied) { try await silent.send([1], to: everybody) }
    #expect("\(error)".contains("broadcast"))
    let client = try await network.near.bind { $0.broadcast = true }
    _ = try await Self.arrives(client, server, everybody)
  }

  @Test func `A missing route is an error of its own datagram`() async throws {
    let network = try await Network(.ipv4)
    let client = try await network.near.bind()
    await expectError(.unreachable) { try await client.send([1], to: .ipv4(IPv4Address(198, 51, 100, 1), port: 9)) }
    await expectError(.scopeMissing) {
      try await client.send([1], to: IPAddress(parsing: "fe80::1").socketAddress(port: 9))
    }
    let server = try await network.far.bind()
    let port = try #require(server.localAddresses[0].port)
    _ = try await Self.arrives(client, server, .ipv4(IPv4Address(192, 0, 2, 2), port: port))
    // With the cable down, the sending machine itself reports that no machine can be reached.
    try await network.near.namespace.ip("link set cable down")
    await expectError(.unreachable) { try await client.send([1], to: .ipv4(IPv4Address(192, 0, 2, 2), port: port)) }
    #expect(await !client.isClosed)
  }
}
