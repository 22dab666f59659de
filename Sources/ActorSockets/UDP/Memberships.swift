internal import SocketSystem

// The multicast groups that an endpoint has joined: a pure value.
//
// - The kernel keeps a membership by the index of its interface, until the socket leaves the group. If the interface is gone, its name no
//   longer leads to the index, or leads to that of another interface. So the index is remembered.
// - If a program names no interface, the kernel chooses one by its routes and keeps that index. When the program leaves the group, the
//   routes may be others, and for IPv6 the kernel would take the newest membership. So the endpoint asks for the index at once.
// - For IPv6, the kernel refuses to choose an interface if the group was joined on any, also on one that is gone: EADDRINUSE. So
//   memberships of interfaces that are gone are dropped before.
// - The memberships of interfaces that are gone count toward the socket's limit. They are dropped when a join fails because of the limit.
// - A membership of an interface that is gone can only be left as a whole, not for one source: ENODEV.

struct JoinedGroup: Equatable {
  /// No other membership of the endpoint ever has this number.
  let id: UInt64
  let group: IPAddress
  let source: IPAddress?
  /// How the program named the interface.
  let selector: InterfaceSelector?
  /// The index of the interface at that time; 0 if the routing table selected one that was gone at once.
  let interface: UInt32
}

struct Memberships {
  /// In the order in which they were joined.
  private(set) var all: [JoinedGroup] = []

  private var lastID: UInt64 = 0

  mutating func joined(
    _ group: IPAddress, _ source: IPAddress?, _ selector: InterfaceSelector?, on interface: UInt32
  ) -> JoinedGroup {
    lastID += 1
    let joined = JoinedGroup(id: lastID, group: group, source: source, selector: selector, interface: interface)
    all.append(joined)
    return joined
  }

  /// Returns `nil` if the endpoint has left the group since.
  func membership(_ id: UInt64) -> JoinedGroup? { all.first { $0.id == id } }

  func contains(_ group: IPAddress, _ source: IPAddress?, on interface: UInt32) -> Bool {
    all.contains { $0.group == group && $0.source == source && $0.interface == interface }
  }

  /// Finds the membership that a call of `leave` means. A `nil` selector means the last one joined without an interface; if there is no
  /// such membership, the last one joined. `interface` is the index of the interface that has this name now; 0 without a name; `nil` if
  /// there is no such interface.
  func left(_ group: IPAddress, _ source: IPAddress?, _ selector: InterfaceSelector?, now interface: UInt32?)
    -> JoinedGroup?
  {
    let candidates = all.filter { $0.group == group && $0.source == source }
    let ofToday = interface == 0 ? nil : candidates.first { $0.interface == interface }
    return ofToday ?? candidates.last { $0.selector == selector } ?? (selector == nil ? candidates.last : nil)
  }

  mutating func remove(_ group: IPAddress, _ source: IPAddress?, on interface: UInt32) {
    all.removeAll { $0.group == group && $0.interface == interface && (source == nil || $0.source == source) }
  }

  func gone(remaining interfaces: [UInt32]) -> [JoinedGroup] {
    all.filter { $0.interface != 0 && !interfaces.contains($0.interface) }
  }
}
