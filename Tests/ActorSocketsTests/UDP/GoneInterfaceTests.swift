import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Multicast on interfaces that come and go.
@Suite(.serialized, .needsNamespaces, .endsInTime) struct GoneInterfaceTests {
  struct Way: CustomTestStringConvertible {
    /// `nil`: the routing table selects the interface.
    let name: InterfaceSelector?
    let hasSource: Bool

    static let all = [false, true].flatMap { hasSource in
      ["cable", nil].map { Way(name: $0, hasSource: hasSource) }
    }

    var testDescription: String { "\(name.map { "on \($0)" } ?? "by the route")\(hasSource ? ", a source" : "")" }
  }

  private struct Machine {
    let namespace: Namespace
    let endpoint: UDPEndpoint
    let group: IPAddress
    let sources: [IPAddress]
    var source: IPAddress?

    init(_ family: AddressFamily, hasSource: Bool = false) async throws {
      let namespace = try await Namespace()
      let reactor = Reactor()
      try await namespace.enter(reactor)
      self.namespace = namespace
      endpoint = try await namespace.run { try UDPEndpoint.bind(to: .port(0), reactor: reactor) }
      let isIPv4 = family == .ipv4
      group = try IPAddress(parsing: isIPv4 ? "239.255.1.2" : "ff15::12")
      sources = try (1...2).map { try IPAddress(parsing: isIPv4 ? "192.0.2.\($0)" : "2001:db8::\($0)") }
      if hasSource { source = sources[0] }
    }

    @discardableResult
    func join(on name: InterfaceSelector? = nil) async throws -> UDPEndpoint.Membership {
      try await endpoint.join(group, on: name, source: source)
    }

    func leave(on name: InterfaceSelector? = nil) async throws {
      try await endpoint.leave(group, on: name, source: source)
    }

    /// Adds an interface, to which the groups are routed.
    func add() async throws {
      try await namespace.ip(
        "link add cable type veth peer name end", "address add 198.51.100.1/24 dev cable", "link set cable up",
        "link set end up", "route add 239.0.0.0/8 dev cable")
      // The kernel adds the route of IPv6 some time after the command.
      try await eventually("the group has a route") {
        (try? await namespace.shell(["ip route get \(group) >/dev/null 2>&1"])) != nil
      }
    }

    /// Adds an interface, to which nothing is routed.
    func addAnother() async throws {
      try await namespace.ip(
        "link add other type veth peer name otherend", "address add 203.0.113.1/24 dev other", "link set other up",
        "link set otherend up")
    }

    func remove(_ name: String = "cable") async throws { try await namespace.ip("link delete \(name)") }

    func index() async throws -> UInt32 {
      try await namespace.run { try #require(try NetworkInterface.list().first { $0.name == "cable" }?.index) }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `The group of an interface that is gone can be left, by any of its names`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    for number in 0..<3 {
      try await machine.add()
      let index = InterfaceSelector.index(try await machine.index())
      let names: [InterfaceSelector] = ["cable", "198.51.100.1", index]
      try await machine.join(on: names[number])
      try await machine.remove()
      // By the name with which it was joined, or by the number.
      let name = number == 0 ? index : names[number]
      try await machine.leave(on: name)
      await expectError(.interfaceNotFound) { try await machine.leave(on: name) }
    }
  }

  @Test(arguments: AddressFamily.allCases)
  func `A group of several sources is left as a whole if its interface is gone`(family: AddressFamily) async throws {
    let machine = try await Machine(family)
    let (endpoint, group) = (machine.endpoint, machine.group)
    try await machine.add()
    for source in machine.sources { try await endpoint.join(group, on: "cable", source: source) }
    try await machine.remove()
    try await endpoint.leave(group, on: "cable", source: machine.sources[0])
    await expectError(.interfaceNotFound) {
      try await endpoint.leave(group, on: "cable", source: machine.sources[1])
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `An interface that is made anew is joined again, and both memberships can be left`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    try await machine.add()
    try await machine.join(on: "cable")
    try await machine.remove()
    try await machine.add()
    try await machine.join(on: "cable")
    await expectError(.alreadyJoined) { try await machine.join(on: "cable") }
    // First the one of today's interface.
    try await machine.leave(on: "cable")
    try await machine.join(on: "cable")
    try await machine.leave(on: "cable")
    try await machine.leave(on: "cable")
    await expectError(.notJoined) { try await machine.leave(on: "cable") }
  }

  @Test(.endsInTime(seconds: 120), arguments: AddressFamily.allCases, Way.all)
  func `Interfaces that come and go do not use up the memberships`(family: AddressFamily, way: Way) async throws {
    let machine = try await Machine(family, hasSource: way.hasSource)
    // Linux allows 20 groups of IPv4 at a time.
    for _ in 0..<50 {
      try await machine.add()
      try await machine.join(on: way.name)
      try await machine.remove()
    }
    guard family == .ipv4 else { return }
    // The limit holds for interfaces that are there.
    try await machine.add()
    for number in 1...20 { try await machine.endpoint.join(IPAddress(parsing: "239.1.1.\(number)"), on: "cable") }
    await expectError(.limitExceeded) { try await machine.endpoint.join(machine.group, on: "cable") }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group that was joined without naming an interface can be left when that interface is gone`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    for hasOtherRoute in [false, true] {
      try await machine.add()
      try await machine.join()
      try await machine.remove()
      if hasOtherRoute { try await machine.add() }
      try await machine.leave()
      await #expect(throws: SocketError.self) { try await machine.leave() }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group is joined again without naming an interface when the one that was chosen is gone`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    try await machine.add()
    try await machine.join()
    try await machine.remove()
    try await machine.add()
    try await machine.join()
    await expectError(.alreadyJoined) { try await machine.join() }
    try await machine.leave()
    await expectError(.notJoined) { try await machine.leave() }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group is left on the interface that was not named, whatever was joined or routed since`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    try await machine.add()
    try await machine.join()
    try await machine.addAnother()
    try await machine.join(on: "other")
    if family == .ipv4 { try await machine.namespace.ip("route replace 239.0.0.0/8 dev other") }
    try await machine.leave()
    for interface in ["cable", "end"] as [InterfaceSelector] {
      await expectError(.notJoined) { try await machine.leave(on: interface) }
    }
    try await machine.leave(on: "other")
    // Without a name, the one that was joined last.
    if family == .ipv4 { try await machine.namespace.ip("route replace 239.0.0.0/8 dev cable") }
    try await machine.join(on: "other")
    try await machine.leave()
    await expectError(.notJoined) { try await machine.leave(on: "other") }
    await expectError(.notJoined) { try await machine.leave() }
  }

  // MARK: Memberships

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A membership is left on its own interface, also if that is gone and another one has its name`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    let machine = try await Machine(family, hasSource: hasSource)
    try await machine.add()
    let old = try await machine.join(on: "cable")
    try await machine.remove()
    try await machine.add()
    let new = try await machine.join(on: "cable")
    #expect(old.interfaceIndex != new.interfaceIndex)
    #expect(try await machine.index() == new.interfaceIndex)
    try await old.leave()
    await expectError(.alreadyJoined) { try await machine.join(on: "cable") }
    try await machine.remove()
    try await new.leave()
    try await machine.add()
    await expectError(.notJoined) { try await machine.leave(on: "cable") }
  }

  @Test(arguments: AddressFamily.allCases, Way.all)
  func `A membership that was left is not left again, however it was left`(
    family: AddressFamily, way: Way
  ) async throws {
    let machine = try await Machine(family, hasSource: way.hasSource)
    try await machine.add()
    let first = try await machine.join(on: way.name)
    #expect(first.group == machine.group && first.source == machine.source)
    // For IPv6, the kernel may select the other end of the cable.
    let index = try await machine.index()
    #expect(first.interfaceIndex == index || family == .ipv6 && way.name == nil && first.interfaceIndex != nil)
    try await first.leave()
    try await first.leave()
    let second = try await machine.join(on: way.name)
    #expect(first != second)
    try await first.leave()
    await expectError(.alreadyJoined) { try await machine.join(on: way.name) }
    try await machine.leave(on: way.name)
    try await second.leave()
    await machine.endpoint.close()
    await expectError(.closed) { try await second.leave() }
  }

  @Test(arguments: AddressFamily.allCases)
  func `The memberships of several sources are left together if their interface is gone`(
    family: AddressFamily
  ) async throws {
    let machine = try await Machine(family)
    try await machine.add()
    var memberships: [UDPEndpoint.Membership] = []
    for source in machine.sources {
      memberships.append(try await machine.endpoint.join(machine.group, on: "cable", source: source))
    }
    try await machine.remove()
    for membership in memberships { try await membership.leave() }
    await expectError(.interfaceNotFound) { try await machine.leave(on: "cable") }
  }
}
