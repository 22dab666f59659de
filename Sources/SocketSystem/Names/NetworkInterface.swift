/// A network interface of this machine, as it was when the list was made: netdevice(7).
public struct NetworkInterface: Sendable, Hashable, CustomStringConvertible {
  /// The name, for example `eth0`.
  public let name: String
  /// The index of the interface: if_nametoindex(3). It is the scope of link-local addresses. Linux does not give it to another interface
  /// soon after the interface is removed.
  public let index: UInt32
  let flags: Flags
  /// The IPv4 and IPv6 addresses, in the kernel's order. An interface that is not configured has no address.
  ///
  /// The kernel checks a new IPv6 address for duplicates, which takes about a second. The address is in the list before a socket can be
  /// bound to it.
  public internal(set) var addresses: [Address]

  /// An address of an interface, and how many of its leading bits all hosts of its network share.
  public struct Address: Sendable, Hashable, CustomStringConvertible {
    /// The address. A link-local IPv6 address has the index of the interface as its scope.
    public let address: IPAddress
    /// The number of bits, 0 to 32 for IPv4 and 0 to 128 for IPv6.
    public let prefixLength: Int

    package init(_ address: IPAddress, prefixLength: Int) {
      self.address = address
      self.prefixLength = prefixLength
    }

    /// The network of the address. It contains all hosts that are reached through the interface without a router.
    public var network: IPNetwork { IPNetwork(of: address, prefixLength: prefixLength) }

    /// The address and the length of the prefix, for example `192.0.2.1/24`.
    public var description: String { "\(address)/\(prefixLength)" }
  }

  /// The flags that programs need. The kernel has more, which are not compared.
  package struct Flags: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static var up: Flags { Flags(rawValue: 1) }
    package static var running: Flags { Flags(rawValue: 2) }
    package static var loopback: Flags { Flags(rawValue: 4) }
    package static var pointToPoint: Flags { Flags(rawValue: 8) }
    package static var multicast: Flags { Flags(rawValue: 16) }
  }

  package init(name: String, index: UInt32, flags: Flags, addresses: [Address]) {
    self.name = name
    self.index = index
    self.flags = flags
    self.addresses = addresses
  }

  /// Whether the interface is switched on: IFF_UP.
  public var isUp: Bool { flags.contains(.up) }
  /// Whether the interface can carry packets now, for example because a cable is plugged in: IFF_RUNNING.
  public var isRunning: Bool { flags.contains(.running) }
  /// Whether the interface leads to this machine only: IFF_LOOPBACK.
  public var isLoopback: Bool { flags.contains(.loopback) }
  /// Whether the interface leads to one other host only, such as a tunnel: IFF_POINTOPOINT.
  public var isPointToPoint: Bool { flags.contains(.pointToPoint) }
  /// Whether multicast groups can be joined on the interface: IFF_MULTICAST.
  public var supportsMulticast: Bool { flags.contains(.multicast) }

  /// The name, the index, the properties and the addresses, in one line.
  public var description: String {
    let properties: [(Bool, String)] = [
      (isUp, "up"), (isRunning, "running"), (isLoopback, "loopback"), (isPointToPoint, "point-to-point"),
      (supportsMulticast, "multicast"),
    ]
    let words = properties.filter(\.0).map(\.1) + addresses.map(\.description)
    return (["\(name) (\(index))"] + words).joined(separator: " ")
  }

  /// In the order of the indexes: getifaddrs(3). Interfaces without addresses are included. An interface that is removed while the list
  /// is made is left out.
  package static func list() throws(SystemError) -> [NetworkInterface] { try CurrentSystem.calls.interfaces() }
}
