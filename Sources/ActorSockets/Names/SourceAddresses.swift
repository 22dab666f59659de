internal import SocketSystem

// Which address to connect from: a pure choice among the addresses that the user's endpoint resolves to.

struct SourceAddresses {
  private let endpoint: Endpoint
  private let candidates: [SocketAddress]

  init(_ endpoint: Endpoint) throws(SocketError) {
    let addresses: [SocketAddress]
    if case .host("", let port) = endpoint {
      addresses = [.ipv6(.any, port: port), .ipv4(.any, port: port)]
    } else {
      // A source is an address or an interface of this machine, so its name is not looked up in DNS.
      addresses = try endpoint.listenAddresses("connect", unknown: .interfaceNotFound)
    }
    self.init(endpoint, addresses)
  }

  init(_ endpoint: Endpoint, _ candidates: [SocketAddress]) {
    self.endpoint = endpoint
    self.candidates = candidates
  }

  /// An address of the same family, preferably of the same scope.
  func source(for destination: SocketAddress) throws(SocketError) -> SocketAddress {
    let possible = candidates.filter { $0.addressFamily == destination.addressFamily && $0.mayReach(destination) }
    guard let best = possible.max(by: { $0.fitness(for: destination) < $1.fitness(for: destination) }) else {
      throw SocketError(
        .addressNotAvailable, operation: "connect",
        detail: "\(AddressError.quote("\(endpoint)")) has no address to reach this one from", address: destination)
    }
    return best
  }
}

extension SocketAddress {
  private var isLinkLocal: Bool {
    if case .ipv6(let address, _) = self { address.isLinkLocal && !address.isIPv4Mapped } else { false }
  }

  fileprivate var scopeID: UInt32 { if case .ipv6(let address, _) = self { address.scopeID } else { 0 } }

  fileprivate func mayReach(_ destination: SocketAddress) -> Bool {
    guard destination.isLinkLocal, isLinkLocal, destination.scopeID != 0 else { return true }
    return scopeID == destination.scopeID
  }

  /// How well this address suits as the source for a destination: RFC 6724, section 5, considering only the scopes.
  fileprivate func fitness(for destination: SocketAddress) -> Int {
    (isLoopback == destination.isLoopback ? 2 : 0) + (isLinkLocal == destination.isLinkLocal ? 1 : 0)
  }

  /// Adds the interface of the source to a link-local address, unless the address has one or the socket is bound to one (`isOnDevice`).
  /// Throws `.scopeMissing`, as an error of this operation, if nothing determines the interface.
  func scoped(
    by source: SocketAddress?, isOnDevice: Bool, for operation: String
  ) throws(SocketError) -> SocketAddress {
    guard isLinkLocal, case .ipv6(var address, let port) = self, address.scopeID == 0 else { return self }
    if let source, source.scopeID != 0 {
      address.scopeID = source.scopeID
      return .ipv6(address, port: port)
    }
    if isOnDevice { return self }
    throw SocketError(.scopeMissing, operation: operation, address: self)
  }
}

extension AddressPreference {
  func sorted(_ addresses: [SocketAddress], for operation: String) throws(SocketError) -> [SocketAddress] {
    // Unix sockets are not affected by the preference.
    let allowed = addresses.filter { address in address.addressFamily.map(families.contains) ?? true }
    if allowed.isEmpty, let first = addresses.first {
      throw .invalid(operation, "\(first) is no address of the only family that may be tried, \(families[0])")
    }
    guard !isOpen, let preferred = families.first else { return allowed }
    return allowed.filter { $0.addressFamily == preferred } + allowed.filter { $0.addressFamily != preferred }
  }
}
