import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Multicast on interfaces that come and go.
@Suite(.serialized, .needsNamespaces) struct GoneInterfaceTests {
  /// How a group is joined.
  struct Way: CustomTestStringConvertible {
    /// `nil`: the routing table selects the interface.
    let name: InterfaceSelector?
    let hasSource: Bool

    static let all = [false, true].flatMap { hasSource in
      ["cable", nil].map { Way(name: $0, hasSource: hasSource) }
    }

    var testDescription: String { "\(name.map { "on \($0)" } ?? "by the route")\(hasSource ? ", a source" : "")" }
  }

  /// A machine with one endpoint.
  private struct Machine {
    let namespace: Namespace
    let endpoint: UDPEndpoint
    let group: IPAddress
    let sources: [IPAddress]

    init(_ family: AddressFamily) async throws {
      let namespace = try await Namespace()
      let reactor = Reactor()
      try await namespace.enter(reactor)
      self.namespace = namespace
      endpoint = try await namespace.run { try UDPEndpoint.bind(to: .port(0), reactor: reactor) }
      let isIPv4 = family == .ipv4
      group = try IPAddress(parsing: isIPv4 ? "239.255.1.2" : "ff15::12")
      sources = try (1...2).map { try IPAddress(parsing: isIPv4 ? "192.0.2.\($0)" : "2001:db8::\($0)") }
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
      try await namespace.run { try #require(try NetworkInterface.all().first { $0.name == "cable" }?.index) }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `The group of an interface that is gone can be left, by any of its names`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all return") {
      let machine = try await Machine(family)
      let (endpoint, group) = (machine.endpoint, machine.group)
      let source = hasSource ? machine.sources[0] : nil
      for number in 0..<3 {
        try await machine.add()
        let index = InterfaceSelector.index(try await machine.index())
        let names: [InterfaceSelector] = ["cable", "198.51.100.1", index]
        try await endpoint.join(group, on: names[number], source: source)
        try await machine.remove()
        // By the name with which it was joined, or by the number.
        let name = number == 0 ? index : names[number]
        try await endpoint.leave(group, on: name, source: source)
        await expectError(.interfaceNotFound) { try await endpoint.leave(group, on: name, source: source) }
      }
    }
  }

  @Test(arguments: AddressFamily.allCases)
  func `A group of several sources is left as a whole if its interface is gone`(family: AddressFamily) async throws {
    try await within("all return") {
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
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `An interface that is made anew is joined again, and both memberships can be left`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all return") {
      let machine = try await Machine(family)
      let (endpoint, group) = (machine.endpoint, machine.group)
      let source = hasSource ? machine.sources[0] : nil
      try await machine.add()
      try await endpoint.join(group, on: "cable", source: source)
      try await machine.remove()
      try await machine.add()
      try await endpoint.join(group, on: "cable", source: source)
      await expectError(.alreadyJoined) { try await endpoint.join(group, on: "cable", source: source) }
      // First the one of today's interface.
      try await endpoint.leave(group, on: "cable", source: source)
      try await endpoint.join(group, on: "cable", source: source)
      try await endpoint.leave(group, on: "cable", source: source)
      try await endpoint.leave(group, on: "cable", source: source)
      await expectError(.notJoined) { try await endpoint.leave(group, on: "cable", source: source) }
    }
  }

  @Test(arguments: AddressFamily.allCases, Way.all)
  func `Interfaces that come and go do not use up the memberships`(family: AddressFamily, way: Way) async throws {
    try await within("all are joined", seconds: 120) {
      let machine = try await Machine(family)
      let source = way.hasSource ? machine.sources[0] : nil
      // Linux allows 20 groups of IPv4 at a time.
      for _ in 0..<50 {
        try await machine.add()
        try await machine.endpoint.join(machine.group, on: way.name, source: source)
        try await machine.remove()
      }
      guard family == .ipv4 else { return }
      // The limit holds for interfaces that are there.
      try await machine.add()
      for number in 1...20 { try await machine.endpoint.join(IPAddress(parsing: "239.1.1.\(number)"), on: "cable") }
      await expectError(.limitExceeded) { try await machine.endpoint.join(machine.group, on: "cable") }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group that was joined without naming an interface can be left when that interface is gone`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all return") {
      let machine = try await Machine(family)
      let (endpoint, group) = (machine.endpoint, machine.group)
      let source = hasSource ? machine.sources[0] : nil
      for hasOtherRoute in [false, true] {
        try await machine.add()
        try await endpoint.join(group, source: source)
        try await machine.remove()
        if hasOtherRoute { try await machine.add() }
        try await endpoint.leave(group, source: source)
        await #expect(throws: SocketError.self) { try await endpoint.leave(group, source: source) }
      }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group is joined again without naming an interface when the one that was chosen is gone`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all return") {
      let machine = try await Machine(family)
      let (endpoint, group) = (machine.endpoint, machine.group)
      let source = hasSource ? machine.sources[0] : nil
      try await machine.add()
      try await endpoint.join(group, source: source)
      try await machine.remove()
      try await machine.add()
      try await endpoint.join(group, source: source)
      await expectError(.alreadyJoined) { try await endpoint.join(group, source: source) }
      try await endpoint.leave(group, source: source)
      await expectError(.notJoined) { try await endpoint.leave(group, source: source) }
    }
  }

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `A group is left on the interface that was not named, whatever was joined or routed since`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all return") {
      let machine = try await Machine(family)
      let (endpoint, group) = (machine.endpoint, machine.group)
      let source = hasSource ? machine.sources[0] : nil
      try await machine.add()
      try await endpoint.join(group, source: source)
      try await machine.addAnother()
      try await endpoint.join(group, on: "other", source: source)
      if family == .ipv4 { try await machine.namespace.ip("route replace 239.0.0.0/8 dev other") }
      try await endpoint.leave(group, source: source)
      for interface in ["cable", "end"] as [InterfaceSelector] {
        await expectError(.notJoined) { try await endpoint.leave(group, on: interface, source: source) }
      }
      try await endpoint.leave(group, on: "other", source: source)
      // Without a name, the one that was joined last.
      if family == .ipv4 { try await machine.namespace.ip("route replace 239.0.0.0/8 dev cable") }
      try await endpoint.join(group, on: "other", source: source)
      try await endpoint.leave(group, source: source)
      await expectError(.notJoined) { try await endpoint.leave(group, on: "other", source: source) }
      await expectError(.notJoined) { try await endpoint.leave(group, source: source) }
    }
  }
}
