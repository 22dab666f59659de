import ActorSockets

/// Keeps an endpoint in a group on every interface that can multicast, while interfaces come and go.
func stay(in group: IPAddress, with endpoint: UDPEndpoint) async throws {
  var memberships: [UInt32: UDPEndpoint.Membership] = [:]
  for try await interfaces in NetworkInterface.changes(reactor: endpoint.executor.reactor) {
    let usable = interfaces.filter { $0.isUp && $0.supportsMulticast && !$0.isLoopback }
    for (index, membership) in memberships where !usable.contains(where: { $0.index == index }) {
      try await membership.leave()
      memberships[index] = nil
    }
    for index in usable.map(\.index) where memberships[index] == nil {
      // If the interface is gone again, the next list says so.
      memberships[index] = try? await endpoint.join(group, on: .index(index))
    }
  }
}
