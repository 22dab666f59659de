import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Multicast on interfaces that come and go.
@Suite(.serialized, .needsNamespaces) struct GoneInterfaceTests {
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

    func add(_ name: String = "cable") async throws {
      try await namespace.ip(
        "link add \(name) type veth peer name end", "address add 198.51.100.1/24 dev \(name)", "link set \(name) up",
        "link set end up")
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

  @Test(arguments: AddressFamily.allCases, [false, true])
  func `Interfaces that come and go do not use up the memberships`(
    family: AddressFamily, hasSource: Bool
  ) async throws {
    try await within("all are joined", seconds: 120) {
      let machine = try await Machine(family)
      let source = hasSource ? machine.sources[0] : nil
      // Linux allows 20 groups of IPv4 at a time.
      for _ in 0..<50 {
        try await machine.add()
        try await machine.endpoint.join(machine.group, on: "cable", source: source)
        try await machine.remove()
      }
      guard family == .ipv4 else { return }
      // The limit holds for interfaces that are there.
      try await machine.add()
      for number in 1...20 { try await machine.endpoint.join(IPAddress(parsing: "239.1.1.\(number)"), on: "cable") }
      await expectError(.limitExceeded) { try await machine.endpoint.join(machine.group, on: "cable") }
    }
  }
}
