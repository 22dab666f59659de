internal import EpollReactor
public import SocketSystem

/// A network interface, by its name, its index or one of its addresses.
public enum InterfaceSelector: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// By its name, for example `eth0`.
  case name(String)
  /// By its index: if_nametoindex(3).
  case index(UInt32)
  /// By one of its addresses.
  case address(IPAddress)

  /// An address if the text is one, otherwise a name.
  ///
  /// - Parameter text: The text.
  public init(_ text: String) { self = IPAddress(text).map { .address($0) } ?? .name(text) }

  /// An address if the text is one, otherwise a name.
  public init(stringLiteral text: String) { self.init(text) }

  /// The name, the number or the address.
  public var description: String {
    switch self {
    case .name(let name): name
    case .index(let index): "\(index)"
    case .address(let address): "\(address)"
    }
  }

  /// The index of the interface, which this machine has.
  func found() throws(SocketError) -> UInt32 {
    do throws(SystemError) {
      let interfaces = try NetworkInterface.all()
      let found = interfaces.first { interface in
        switch self {
        case .name(let name): interface.name == name
        case .index(let index): interface.index == index
        case .address(let address): interface.addresses.contains { IPAddress($0.unmapped) == address }
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
  /// Joins a group: its datagrams to this endpoint's port arrive from now on. RFC 3678, ip(7), ipv6(7).
  ///
  /// Groups are received by an endpoint for all addresses, or by one that is bound to the group itself. Several programs of a
  /// machine receive the same group and port with ``Configuration/reuseAddress``. Groups that other sockets of the machine have
  /// joined do not come: IP_MULTICAST_ALL is off. Of an IPv6 group Linux gives an endpoint that joined it on one interface also
  /// what comes through another one that has a member.
  ///
  /// - Parameters:
  ///   - group: The group; its scope (`ff02::1%eth0`) names an interface, too.
  ///   - interface: The interface; `nil` for the one that the routing table names.
  ///   - source: The only host whose datagrams are wanted; `nil` for any. To want several, join once for each.
  /// - Throws: `.invalidArgument` if it is no group, `.alreadyJoined`, `.interfaceNotFound`, `.familyNotSupported`, `.closed`,
  ///   `.limitExceeded` for more groups than the system allows (`net.ipv4.igmp_max_memberships`).
  public func join(_ group: IPAddress, on interface: InterfaceSelector? = nil, source: IPAddress? = nil) throws {
    try changeMembership(joins: true, group, interface, source, claimPlaceNow())
  }

  /// Leaves a group, with the arguments that it was joined with.
  ///
  /// - Parameters:
  ///   - group: The group.
  ///   - interface: The interface.
  ///   - source: The host whose datagrams are no longer wanted.
  /// - Throws: `.notJoined`, and what ``join(_:on:source:)`` throws.
  public func leave(_ group: IPAddress, on interface: InterfaceSelector? = nil, source: IPAddress? = nil) throws {
    try changeMembership(joins: false, group, interface, source, claimPlaceNow())
  }

  /// Chooses the interface that datagrams to groups go out of.
  ///
  /// How far they go and whether members on this machine get them are options: ``SocketOption/multicastTimeToLive``,
  /// ``SocketOption/multicastLoopback``.
  ///
  /// - Parameter interface: The interface; `nil` for the one that the routing table names.
  /// - Throws: `.interfaceNotFound`, `.closed`.
  public func setMulticastInterface(_ interface: InterfaceSelector?) throws {
    _ = try openSocket("setMulticastInterface", claimPlaceNow())
    let index = try interface?.found() ?? 0
    for (place, kind) in kinds.enumerated() where kind != .unix {
      do throws(SystemError) {
        try sockets[place].socket?.setMulticastInterface(index, ipv4: kind != .ipv6, ipv6: kind != .ipv4)
      } catch {
        throw SocketError(error, operation: "setMulticastInterface")
      }
    }
  }

  private func changeMembership(
    joins: Bool, _ group: IPAddress, _ interface: InterfaceSelector?, _ source: IPAddress?,
    _ place: Place
  ) throws {
    let operation = joins ? "join" : "leave"
    _ = try openSocket(operation, place)
    if !group.isMulticast { throw SocketError.invalid(operation, "\(group) is no multicast group") }
    if let source, source.isIPv4 != group.isIPv4 || source.isMulticast || source.isUnspecified {
      throw SocketError.invalid(operation, "\(source) is no host that sends to \(group)")
    }
    var index = try interface?.found() ?? 0
    if case .ipv6(let address) = group, index == 0 { index = address.scopeID }
    let places = kinds.indices.filter { kinds[$0].reaches(group.socketAddress(port: 1)) }
    if places.isEmpty {
      throw SocketError(
        .familyNotSupported, operation: operation,
        detail: "this endpoint receives no \(group.isIPv4 ? "IPv4" : "IPv6")",
        address: group.socketAddress(port: 0))
    }
    for place in places {
      do throws(SystemError) {
        try sockets[place].socket?.changeMembership(joins: joins, group: group, source: source, interface: index)
      } catch {
        throw Self.failure(error, operation, group, interface)
      }
    }
  }

  private static func failure(
    _ error: SystemError, _ operation: String, _ group: IPAddress, _ interface: InterfaceSelector?
  ) -> SocketError {
    let there = interface.map { " on \($0)" } ?? ""
    let (code, detail): (SocketError.Code, String)
    switch error.errno {
    case Errno.addressInUse, Errno.addressNotAvailable, Errno.invalidArgument:
      // The numbers differ with the family, and with whether there is a source.
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
