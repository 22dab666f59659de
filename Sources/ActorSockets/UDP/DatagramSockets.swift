internal import EpollReactor
internal import SocketSystem

struct DatagramSockets {
  private(set) var sockets: [BoundSocket] = []
  private(set) var file: UnixSocketFile?
  /// Of a socket that was connected elsewhere.
  private(set) var peer: SocketAddress?

  /// Takes ownership of a socket that `UDPEndpoint.prepare` has prepared.
  init(adopting found: AdoptableSocket, _ reactor: Reactor) {
    let socket = found.socket
    // It may have been bound since it was found. The last alternative is never used, because the socket has an address.
    let address = (try? socket.localAddress()) ?? found.address ?? .unix(.unnamed)
    peer = (try? socket.remoteAddress())?.unmapped
    let kind = BoundSocket.Kind(ofAdopted: socket, at: address, isConnected: peer != nil)
    let registration = Registration(on: reactor, holding: found.takeOwnership(), mayBeShared: true)
    sockets = [BoundSocket(registration: registration, address: address, kind: kind)]
  }

  init(_ endpoint: Endpoint, _ configuration: UDPEndpoint.Configuration, _ reactor: Reactor) throws(SocketError) {
    if let permissions = configuration.permissions, permissions > 0o777 {
      throw .invalid("bind", "0o\(String(permissions, radix: 8)) has more than permission bits: 0o777")
    }
    try configuration.check("bind")
    switch endpoint {
    case .unix(path: ""): try bindUnix(nil, configuration, reactor)
    case .address(.unix(let path)): try bindUnix(path.isUnnamed ? nil : path, configuration, reactor)
    case .unix, .host, .address:
      let wanted = try endpoint.bindAddresses(configuration.addressPreference)
      if case .unix(let path) = wanted[0] {
        try bindUnix(path, configuration, reactor)
        return
      }
      let mayBeDual = !configuration.ipv6Only && configuration.addressPreference != .ipv6Only
      let (registrations, addresses) = try BoundSockets.make(wanted, canFallBack: mayBeDual) {
        address throws(SocketError) in
        try Self.bind(
          to: address, isDual: mayBeDual && address == .ipv6(.any, port: address.port ?? 0), configuration, reactor)
      }
      sockets = zip(registrations, addresses).map {
        BoundSocket(registration: $0, address: $1, kind: BoundSocket.Kind($1, mayBeDual: mayBeDual))
      }
    }
  }

  private static func bind(
    to address: SocketAddress, isDual: Bool, _ configuration: UDPEndpoint.Configuration, _ reactor: Reactor
  ) throws(SocketError) -> (Registration, SocketAddress) {
    do {
      let descriptor = try OwnedDescriptor.datagramSocket(family: address.family)
      try configuration.prepare(descriptor.socket, for: address, isDual: isDual)
      try descriptor.socket.bind(to: address)
      let bound = try descriptor.socket.localAddress() ?? address
      return (Registration(on: reactor, holding: descriptor, mayBeShared: configuration.lendsDescriptors), bound)
    } catch let error as SystemError {
      throw SocketError(error, operation: "bind to", address: address)
    } catch {
      // Only setting an option throws an error of another type.
      throw error as? SocketError ?? .invalid("bind", "\(error)")
    }
  }

  /// If the path is `nil`, the kernel chooses an abstract name.
  private mutating func bindUnix(
    _ path: UnixPath?, _ configuration: UDPEndpoint.Configuration, _ reactor: Reactor
  ) throws(SocketError) {
    let wanted = SocketAddress.unix(path ?? .unnamed)
    do {
      let descriptor = try OwnedDescriptor.datagramSocket(family: wanted.family)
      try configuration.prepare(descriptor.socket, for: wanted, isDual: false)
      if let path, !path.isAbstract {
        file = try UnixSocketFile.make(
          for: descriptor.socket, at: path, permissions: configuration.permissions, backlog: nil)
      } else {
        try descriptor.socket.bind(to: .unix(path ?? .unnamed))
      }
      let address = try descriptor.socket.localAddress() ?? wanted
      let registration = Registration(on: reactor, holding: descriptor, mayBeShared: configuration.lendsDescriptors)
      sockets = [BoundSocket(registration: registration, address: address, kind: .unix)]
    } catch let error as SystemError {
      throw SocketError(error, operation: "bind to", address: path.map { .unix($0) })
    } catch {
      throw error as? SocketError ?? .invalid("bind", "\(error)")
    }
  }
}

extension Endpoint {
  fileprivate func bindAddresses(_ preference: AddressPreference) throws(SocketError) -> [SocketAddress] {
    if case .host("", let port) = self, preference == .ipv4Only { return [.ipv4(.any, port: port)] }
    let addresses = try listenAddresses("bind")
    if case .host("", _) = self { return addresses }
    return try preference.sorted(addresses, for: "bind")
  }
}
