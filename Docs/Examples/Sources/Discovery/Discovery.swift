import ActorSockets

/// Announces a service on all networks of this machine, and finds the services that other programs announce there.
///
/// ```swift
/// let discovery = try Discovery(announcing: DiscoveredService(name: "printer", port: 631))
/// async let running: Void = discovery.run()
/// for await event in discovery.events { … }
/// ```
actor Discovery {
  struct Configuration: Sendable {
    var port: UInt16 = 7746
    /// The groups. The scope of both is the local network.
    var groups: [IPAddress] = [.ipv4(IPv4Address(239, 255, 77, 46)), IPAddress("ff02::4d2e")].compactMap { $0 }
    var settings = DiscoveryState.Settings()
  }

  /// The service does not fit into a datagram, or has a control character in a text.
  struct UnsuitableService: Error {}

  private struct Place: Hashable {
    let interface: UInt32
    let group: IPAddress
  }

  /// What happens. If no task takes the events, the oldest ones are dropped; ``peers`` is always complete.
  nonisolated let events: AsyncStream<DiscoveryEvent>
  private let tell: AsyncStream<DiscoveryEvent>.Continuation
  private let configuration: Configuration
  private var state: DiscoveryState
  private var memberships: [Place: UDPEndpoint.Membership] = [:]

  /// Creates a program of the network.
  ///
  /// - Parameters:
  ///   - service: The service; `nil` to find others only.
  ///   - configuration: The settings.
  /// - Throws: `UnsuitableService`.
  init(announcing service: DiscoveredService?, configuration: Configuration = .init()) throws {
    self.configuration = configuration
    state = DiscoveryState(id: .random(in: 1 ... .max), service: service, settings: configuration.settings)
    (events, tell) = AsyncStream.makeStream(of: DiscoveryEvent.self, bufferingPolicy: .bufferingNewest(1000))
    if service != nil, state.message(.announcement).bytes == nil { throw UnsuitableService() }
  }

  /// The programs that are there now.
  var peers: [DiscoveredPeer] { state.peers }

  /// Takes part until the task is cancelled, and then says goodbye.
  ///
  /// - Throws: `SocketError` if the port cannot be used.
  func run() async throws {
    defer { tell.finish() }
    var options = UDPEndpoint.Configuration()
    // Other programs of this machine use the port, too.
    options.reuseAddress = true
    options.metadata = .localAddress
    options.maximumReceiveSizeIPv4 = DiscoveryMessage.largest
    options.maximumReceiveSizeIPv6 = DiscoveryMessage.largest
    let endpoint = try UDPEndpoint.bind(to: .port(configuration.port), configuration: options)
    do {
      try await exchange(on: endpoint)
    } catch is CancellationError {
      // In a task of its own, which is not cancelled.
      await Task { await leave(endpoint) }.value
    }
  }

  /// Joins the groups on the interfaces of the machine, and exchanges messages until the interfaces change. Then it begins again.
  private func exchange(on endpoint: UDPEndpoint) async throws {
    var lists = NetworkInterface.changes(reactor: endpoint.executor.reactor).makeAsyncIterator()
    var current = try await lists.next()
    while let interfaces = current {
      await join(endpoint, on: MulticastInterfaces.usable(among: interfaces))
      state.use(interfaces: Set(memberships.keys.map(\.interface)), at: .now)
      (current, lists) = try await withThrowingTaskGroup { [lists] group in
        group.addTask {
          var lists = lists
          return (try await lists.next(), lists)
        }
        group.addTask { try await self.exchangeMessages(on: endpoint) }
        // Cancelling the other task loses no datagram.
        defer { group.cancelAll() }
        return try await group.next() ?? (nil, lists)
      }
    }
  }

  /// Receives until something is due, and does it.
  private func exchangeMessages(on endpoint: UDPEndpoint) async throws -> Never {
    while true {
      for action in state.due(at: .now) { perform(action, on: endpoint) }
      // Without a datagram, something is due.
      guard let datagram = try await nextDatagram(on: endpoint), !datagram.isTruncated,
        let sender = datagram.remoteAddress.flatMap({ IPAddress($0) })
      else { continue }
      let actions = state.receive(datagram.bytes, from: sender, on: datagram.interfaceIndex, at: .now)
      for action in actions { perform(action, on: endpoint) }
    }
  }

  private func nextDatagram(on endpoint: UDPEndpoint) async throws -> Datagram? {
    if let next = state.next { return try await endpoint.receive(until: next) }
    return try await endpoint.receive()
  }

  /// Leaves the groups on interfaces that are gone, and joins them on those that are new.
  private func join(_ endpoint: UDPEndpoint, on interfaces: [UInt32: MulticastInterfaces.Families]) async {
    for (place, membership) in memberships where interfaces[place.interface] == nil {
      try? await membership.leave()
      memberships[place] = nil
    }
    for (index, families) in interfaces {
      for group in configuration.groups where families.contains(group.isIPv4 ? .ipv4 : .ipv6) {
        let place = Place(interface: index, group: group)
        if memberships[place] != nil { continue }
        // If it fails, the interface is gone again, which the next list says, or this machine has no IPv6.
        memberships[place] = try? await endpoint.join(group, on: .index(index))
      }
    }
  }

  private func perform(_ action: DiscoveryState.Action, on endpoint: UDPEndpoint) {
    switch action {
    case .tell(let event): tell.yield(event)
    // If it cannot be sent, there will be another one.
    case .send(let kind, let interface):
      for datagram in datagrams(kind, on: interface) { endpoint.enqueueSend(datagram) }
    }
  }

  /// Returns the datagrams with a message on an interface: one for each family.
  private func datagrams(_ kind: DiscoveryMessage.Kind, on interface: UInt32) -> [Datagram] {
    guard let bytes = state.message(kind).bytes else { return [] }
    return memberships.keys.filter { $0.interface == interface }.map { place in
      var datagram = Datagram(bytes, to: place.group.socketAddress(port: configuration.port))
      datagram.interfaceIndex = interface
      return datagram
    }
  }

  /// Says goodbye on all interfaces, and closes the endpoint.
  private func leave(_ endpoint: UDPEndpoint) async {
    if state.service != nil {
      for interface in Set(memberships.keys.map(\.interface)) {
        for datagram in datagrams(.goodbye, on: interface) { endpoint.enqueueSend(datagram) }
      }
    }
    await endpoint.closeAfterPendingSends(within: .seconds(1))
  }
}
