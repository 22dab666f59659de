internal import EpollReactor
public import SocketSystem

/// A network interface, identified by its name, its index or one of its addresses.
public enum InterfaceSelector: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The name, for example `eth0`.
  case name(String)
  /// The index: if_nametoindex(3).
  case index(UInt32)
  /// One of the addresses.
  case address(IPAddress)

  /// Creates an address selector if the text is an IP address, otherwise a name selector.
  ///
  /// - Parameter text: The text.
  public init(_ text: String) { self = IPAddress(text).map { .address($0) } ?? .name(text) }

  /// Creates an address selector if the text is an IP address, otherwise a name selector.
  public init(stringLiteral text: String) { self.init(text) }

  /// The name, the index or the address.
  public var description: String {
    switch self {
    case .name(let name): name
    case .index(let index): "\(index)"
    case .address(let address): "\(address)"
    }
  }

  func found() throws(SocketError) -> UInt32 {
    do throws(SystemError) {
      let interfaces = try NetworkInterface.list()
      let found = interfaces.first { interface in
        switch self {
        case .name(let name): interface.name == name
        case .index(let index): interface.index == index
        case .address(let address): interface.addresses.contains { $0.address == address }
        }
      }
      if let found { return found.index }
    } catch {
      throw SocketError(error, operation: "interface")
    }
    throw SocketError(
      .interfaceNotFound, operation: "interface",
      detail: "this machine has no interface \(AddressError.quote(description))")
  }
}

extension UDPEndpoint {
  /// Joins a multicast group. Its datagrams to this endpoint's port arrive from now on: RFC 3678, ip(7), ipv6(7).
  ///
  /// The endpoint must be bound to all addresses or to the group itself. Several programs on a machine can receive the same
  /// group and port with ``Configuration/reuseAddress``. The endpoint does not receive groups that only other sockets of the machine have
  /// joined, because IP_MULTICAST_ALL is off.
  ///
  /// IPv6 has an exception. If an endpoint joins a group on one interface, and any other socket joins the group on a second interface,
  /// Linux delivers the datagrams of both interfaces to the endpoint.
  ///
  /// If an interface is removed and another one gets its name, join again. The old membership lasts until the endpoint leaves it, or joins
  /// the group without naming an interface. If the endpoint is in as many groups as the system allows, the memberships of interfaces that
  /// are gone are dropped.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - group: The group. Its scope (`ff02::1%eth0`) also selects an interface.
  ///   - interface: The interface; `nil` for the one that the routing table selects. For IPv6, Linux then refuses a group that the endpoint
  ///     has joined on any interface.
  ///   - source: The only host whose datagrams are wanted; `nil` for any. To receive from several hosts, join once for each.
  /// - Returns: The membership, which can be left however the interfaces change. The endpoint stays in the group if it is not used.
  /// - Throws: ``SocketError``: `.invalidArgument` if the address is not a multicast group, `.alreadyJoined`,
  ///   `.interfaceNotFound`, `.familyNotSupported`, `.closed`, `.limitExceeded` for more groups than the system allows
  ///   (`net.ipv4.igmp_max_memberships`).
  @discardableResult
  public func join(
    _ group: IPAddress, on interface: InterfaceSelector? = nil, source: IPAddress? = nil
  ) throws -> Membership {
    let members = try sockets(toChange: group, source, "join", claimPlaceNow())
    let index = try interface?.found() ?? group.scope
    do throws(SystemError) {
      return Membership(self, try join(group, interface, source, index, members))
    } catch {
      throw Self.failure(error, "join", group, interface)
    }
  }

  /// Leaves a multicast group that was joined with the same arguments. The interface may be gone: see also
  /// ``Membership``. If it is gone and the group was joined for several sources on it, the endpoint leaves the group for all of them.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - group: The group.
  ///   - interface: The interface; `nil` for the one on which the group was joined without naming an interface, otherwise for the
  ///     one on which it was joined last.
  ///   - source: The host whose datagrams are no longer wanted.
  /// - Throws: ``SocketError``: `.notJoined`, and the errors of ``join(_:on:source:)`` except `.alreadyJoined` and
  ///   `.limitExceeded`.
  public func leave(_ group: IPAddress, on interface: InterfaceSelector? = nil, source: IPAddress? = nil) throws {
    let members = try sockets(toChange: group, source, "leave", claimPlaceNow())
    let index = try joinedIndex(group, interface, source)
    do throws(SystemError) {
      try leave(group, source, index, members)
    } catch {
      throw Self.failure(error, "leave", group, interface)
    }
  }

  /// Leaves the group of a membership, unless the endpoint has left it.
  func leave(_ id: UInt64) throws {
    _ = try openSocket("leave", claimPlaceNow())
    guard let joined = core.memberships.membership(id) else { return }
    do throws(SystemError) {
      try leave(joined.group, joined.source, joined.interface, sockets(receiving: joined.group))
    } catch {
      throw Self.failure(error, "leave", joined.group, joined.interface == 0 ? nil : .index(joined.interface))
    }
  }

  /// Sets the interface through which datagrams to multicast groups are sent.
  ///
  /// Two options control how far they go, and whether members on this machine receive them:
  /// ``SocketOption/multicastTimeToLive`` and ``SocketOption/multicastLoopback``.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter interface: The interface; `nil` for the one that the routing table selects.
  /// - Throws: ``SocketError``: `.interfaceNotFound`, `.closed`, or the kernel's error.
  public func setMulticastInterface(_ interface: InterfaceSelector?) throws {
    _ = try openSocket("setMulticastInterface", claimPlaceNow())
    let index = try interface?.found() ?? 0
    for bound in core.routes.sockets where bound.kind != .unix {
      do throws(SystemError) {
        try bound.socket?.setMulticastInterface(index, ipv4: bound.kind.serves(.ipv4), ipv6: bound.kind.serves(.ipv6))
      } catch {
        throw SocketError(error, operation: "setMulticastInterface")
      }
    }
  }

  /// Checks the arguments of a call that joins or leaves a group.
  private func sockets(
    toChange group: IPAddress, _ source: IPAddress?, _ operation: String, _ place: Place
  ) throws -> [BoundSocket] {
    _ = try openSocket(operation, place)
    if !group.isMulticast { throw SocketError.invalid(operation, "\(group) is no multicast group") }
    if let source, source.isIPv4 != group.isIPv4 || source.isMulticast || source.isUnspecified {
      throw SocketError.invalid(operation, "\(source) is no host that sends to \(group)")
    }
    let members = sockets(receiving: group)
    if members.isEmpty {
      throw SocketError(
        .familyNotSupported, operation: operation,
        detail: "this endpoint receives no \(group.isIPv4 ? "IPv4" : "IPv6")",
        address: group.socketAddress(port: 0))
    }
    return members
  }

  private func join(
    _ group: IPAddress, _ selector: InterfaceSelector?, _ source: IPAddress?, _ index: UInt32, _ members: [BoundSocket]
  ) throws(SystemError) -> JoinedGroup {
    // For IPv6, the kernel would take a membership on an interface that is gone for one on the interface that it chooses.
    if index == 0 { _ = dropGoneMemberships(of: group) }
    do throws(SystemError) {
      try change(joins: true, group, source, index, members)
    } catch {
      guard [Errno.noBuffers, Errno.noMemory].contains(error.errno), dropGoneMemberships() else { throw error }
      try change(joins: true, group, source, index, members)
    }
    let interface = index == 0 ? chosenInterface(group, source, members) : index
    return core.memberships.joined(group, source, selector, on: interface)
  }

  /// The interface that the kernel has chosen for a group; 0 if that interface is gone already. The kernel only says whether a socket is a
  /// member on a given interface.
  private func chosenInterface(_ group: IPAddress, _ source: IPAddress?, _ members: [BoundSocket]) -> UInt32 {
    guard let socket = members[0].socket, let interfaces = try? NetworkInterface.list() else { return 0 }
    let chosen = interfaces.first {
      !core.memberships.contains(group, source, on: $0.index)
        && socket.isMember(of: group, source: source, interface: $0.index)
    }
    return chosen?.index ?? 0
  }

  private func leave(
    _ group: IPAddress, _ source: IPAddress?, _ index: UInt32, _ members: [BoundSocket]
  ) throws(SystemError) {
    var source = source
    do throws(SystemError) {
      try change(joins: false, group, source, index, members)
    } catch {
      // Without the interface, the group can only be left for all sources.
      guard error.errno == Errno.noDevice, source != nil else { throw error }
      source = nil
      try change(joins: false, group, nil, index, members)
    }
    core.memberships.remove(group, source, on: index)
  }

  private func change(
    joins: Bool, _ group: IPAddress, _ source: IPAddress?, _ index: UInt32, _ members: [BoundSocket]
  ) throws(SystemError) {
    for member in members {
      try member.socket?.changeMembership(joins: joins, group: group, source: source, interface: index)
    }
  }

  private func sockets(receiving group: IPAddress) -> [BoundSocket] {
    core.routes.sockets.filter { $0.kind.reaches(group.socketAddress(port: 1)) }
  }

  /// The interface may be gone.
  private func joinedIndex(
    _ group: IPAddress, _ selector: InterfaceSelector?, _ source: IPAddress?
  ) throws(SocketError) -> UInt32 {
    let found: Result<UInt32, SocketError>
    do { found = .success(try selector?.found() ?? group.scope) } catch { found = .failure(error) }
    var now = try? found.get()
    if case .index(let index) = selector { now = index }
    if let membership = core.memberships.left(group, source, selector, now: now) { return membership.interface }
    return try found.get()
  }

  /// Leaves the groups on interfaces that are gone, or only this one. Returns whether there were any.
  private func dropGoneMemberships(of group: IPAddress? = nil) -> Bool {
    if core.memberships.all.isEmpty { return false }
    guard let interfaces = try? NetworkInterface.list() else { return false }
    let gone = core.memberships.gone(remaining: interfaces.map(\.index)).filter { group == nil || $0.group == group }
    for membership in gone {
      let (group, index) = (membership.group, membership.interface)
      try? change(joins: false, group, nil, index, sockets(receiving: group))
      core.memberships.remove(group, nil, on: index)
    }
    return !gone.isEmpty
  }

  private static func failure(
    _ error: SystemError, _ operation: String, _ group: IPAddress, _ interface: InterfaceSelector?
  ) -> SocketError {
    let there = interface.map { " on \($0)" } ?? ""
    let (code, detail): (SocketError.Code, String)
    switch error.errno {
    case Errno.addressInUse, Errno.addressNotAvailable, Errno.invalidArgument:
      // The kernel's errno depends on the family, and on whether there is a source.
      (code, detail) =
        operation == "join"
        ? (.alreadyJoined, "the endpoint is in the group \(group)\(there) already")
        : (.notJoined, "the endpoint is not in the group \(group)\(there), or has joined it otherwise")
    case Errno.noDevice:
      (code, detail) = (
        .interfaceNotFound,
        interface == nil
          ? "no route names an interface for the group \(group), say which one" : "\(group) cannot be joined\(there)"
      )
    case Errno.noBuffers: (code, detail) = (.limitExceeded, "the endpoint is in as many groups as the system allows")
    default: return SocketError(error, operation: operation, address: group.socketAddress(port: 0))
    }
    return SocketError(code, operation: operation, detail: detail, errno: error.errno)
  }
}

extension IPAddress {
  /// The index of the interface that the address names; 0 if it names none.
  fileprivate var scope: UInt32 { if case .ipv6(let address) = self { address.scopeID } else { 0 } }
}
