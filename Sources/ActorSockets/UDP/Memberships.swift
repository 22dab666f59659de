internal import SocketSystem

// The multicast groups that an endpoint has joined: a pure value.
//
// - The kernel keeps a membership by the index of its interface, until the socket leaves the group. If the interface is gone, its name no
//   longer leads to the index, or leads to that of another interface. So the index is remembered.
// - The memberships of interfaces that are gone count to the socket's limit. They are dropped when a join fails because of the limit.
// - A membership of an interface that is gone can only be left as a whole, not for one source: ENODEV.

/// A group that an endpoint has joined.
struct Membership: Equatable {
  let group: IPAddress
  let source: IPAddress?
  /// How the program named the interface.
  let selector: InterfaceSelector?
  /// The interface at that time; 0 for the one that the routing table selected.
  let interface: UInt32
}

/// The groups that an endpoint has joined.
struct Memberships {
  private(set) var all: [Membership] = []

  mutating func joined(_ membership: Membership) { all.append(membership) }

  /// Finds the membership that a program means which leaves a group.
  ///
  /// - Parameters:
  ///   - group: The group.
  ///   - source: The source.
  ///   - selector: How the program names the interface.
  ///   - interface: The index of the interface that has this name now; `nil` if there is no such interface.
  /// - Returns: The membership; `nil` if it is not known.
  func left(_ group: IPAddress, _ source: IPAddress?, _ selector: InterfaceSelector?, now interface: UInt32?)
    -> Membership?
  {
    let candidates = all.filter { $0.group == group && $0.source == source }
    return candidates.first { $0.interface == interface } ?? candidates.first { $0.selector == selector }
  }

  /// The endpoint has left a group on an interface, for one source only if there is one.
  mutating func remove(_ group: IPAddress, _ source: IPAddress?, on interface: UInt32) {
    all.removeAll { $0.group == group && $0.interface == interface && (source == nil || $0.source == source) }
  }

  /// The memberships of interfaces that are gone.
  func gone(remaining interfaces: [UInt32]) -> [Membership] {
    all.filter { $0.interface != 0 && !interfaces.contains($0.interface) }
  }
}
