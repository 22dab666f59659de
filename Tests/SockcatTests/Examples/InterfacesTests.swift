import ActorSockets
import TestSupport
import Testing

/// The example of interfaces in the article about datagrams.
@Suite(.serialized, .needsNamespaces, .endsInTime) struct InterfacesTests {
  @Test(arguments: ["239.1.2.3", "ff15::1"])
  func `An endpoint is in the group on the interfaces that are there`(group: String) async throws {
    let namespace = try await Namespace()
    let reactor = Reactor()
    try await namespace.enter(reactor)
    let endpoint = try await namespace.run { try UDPEndpoint.bind(to: .port(0), reactor: reactor) }
    let task = Task { try await stay(in: try IPAddress(parsing: group), with: endpoint) }
    func eventuallyIsMember(_ isMember: Bool, on name: String) async throws {
      let test = "ip maddress show dev \(name) | grep --quiet --word-regexp --fixed-strings '\(group)'"
      try await eventually("the endpoint \(isMember ? "joins" : "leaves") on \(name)") {
        (try? await namespace.shell(["\(isMember ? "" : "! ")\(test)"])) != nil
      }
    }
    try await namespace.ip("link add cable type veth peer name end", "link set cable up", "link set end up")
    try await eventuallyIsMember(true, on: "cable")
    try await eventuallyIsMember(true, on: "end")
    try await namespace.ip("link set cable down")
    try await eventuallyIsMember(false, on: "cable")
    try await namespace.ip("link delete cable", "link add cable type veth peer name end", "link set cable up")
    try await eventuallyIsMember(true, on: "cable")
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }
}
