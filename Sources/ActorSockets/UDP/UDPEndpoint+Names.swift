internal import EpollReactor
internal import SocketSystem

// Which address of a name a datagram goes to, or the endpoint connects to. `HappyEyeballs` decides, as for connections.

struct AddressSearch: Sendable {
  var plan: HappyEyeballs
  /// The name's `hostNameBytes`.
  let key: [UInt8]
  /// The endpoint is to be connected to the address, and not only to send to it.
  let isForPeer: Bool
  let task: Task<Void, Never>
  var timer: DeadlineKey?

  func cancel() { task.cancel() }
}

struct AddressSearches: Sendable {
  /// The searches, by the number of their send.
  private var byID: [UInt64: AddressSearch] = [:]
  /// For each name, the family whose address was used last. It goes first the next time.
  private(set) var familiesThatWorked: [[UInt8]: AddressFamily] = [:]

  static var rememberedNames: Int { 64 }

  subscript(id: UInt64) -> AddressSearch? {
    get { byID[id] }
    _modify { yield &byID[id] }
  }

  var isEmpty: Bool { byID.isEmpty }

  mutating func remove(_ id: UInt64) -> AddressSearch? { byID.removeValue(forKey: id) }

  func cancelAll() { for search in byID.valuesInOrder { search.cancel() } }

  mutating func worked(_ family: AddressFamily, for key: [UInt8]) {
    if familiesThatWorked[key] == nil, familiesThatWorked.count >= Self.rememberedNames { familiesThatWorked = [:] }
    familiesThatWorked[key] = family
  }
}

extension UDPEndpoint {
  func target(_ endpoint: Endpoint, _ operation: String) throws(SocketError) -> Endpoint.Target {
    let target = try endpoint.connectTarget(operation)
    guard case .addresses(let addresses) = target else { return target }
    return .addresses(try configuration.addressPreference.sorted(addresses, for: operation))
  }

  /// The first address to which a datagram can be sent. If there is no such address, one whose error says why.
  func firstReachable(of addresses: [SocketAddress]) -> SocketAddress? {
    if addresses.count < 2 { return addresses.first }
    return addresses.first { obstacle(to: $0, asPeer: false) == nil }
      ?? addresses.first { address in core.routes.sockets.contains { $0.kind.reaches(address.unmapped) } }
      ?? addresses.first
  }

  func lookUp(_ name: String, _ port: UInt16, for id: UInt64) {
    let preference = configuration.addressPreference
    let key = name.hostNameBytes
    let worked = preference.isOpen ? searches.familiesThatWorked[key] : nil
    let families = preference.families.filter(bound.families.contains).sorted { $0 == worked && $1 != worked }
    let isForPeer = sends.queue.datagram(ofName: id) == nil
    if families.isEmpty {
      let error = SocketError(
        .familyNotSupported, operation: isForPeer ? "connect" : "send",
        detail: "\(localAddresses[0]) cannot send to addresses of the families that names are looked up in")
      return sends.queue.resolve(id, .failure(error))
    }
    let resolver = configuration.resolver
    let task = Task(executorPreference: globalConcurrentExecutor) { [weak self] in
      await resolver.lookUp(name, in: families) { [weak self] family, outcome in
        self?.submit { $0.lookedUp(family, outcome.map { $0.map { $0.with(port: port) } }, for: id) }
      }
    }
    searches[id] = AddressSearch(
      plan: HappyEyeballs(awaiting: families, of: preference, attemptDelay: 0), key: key,
      isForPeer: isForPeer, task: task)
  }

  private func lookedUp(_ family: AddressFamily, _ outcome: HostLookups.Outcome, for id: UInt64) {
    searches[id]?.plan.resolved(family, outcome, at: registration.reactor.now)
    search(for: id)
  }

  func searchIsDue(_ id: UInt64) {
    searches[id]?.timer = nil
    search(for: id)
  }

  private func search(for id: UInt64) {
    while let isForPeer = searches[id]?.isForPeer, let step = searches[id]?.plan.next(at: registration.reactor.now) {
      switch step {
      case .attempt(let attempt):
        guard let obstacle = obstacle(to: attempt.address, asPeer: isForPeer) else {
          return found(attempt.address, for: id)
        }
        searches[id]?.plan.failed(attempt, obstacle, at: registration.reactor.now)
      case .wait(let time):
        if let timer = searches[id]?.timer.take() { registration.disarm(timer) }
        searches[id]?.timer = time.flatMap { registration.arm(at: $0, tag: DeadlineTag(.search, id)) }
        return
      case .fail(let error):
        endSearch(id)
        sends.queue.resolve(id, .failure(error.during(isForPeer ? "connect" : "send")))
        return pumpSends()
      }
    }
  }

  private func found(_ address: SocketAddress, for id: UInt64) {
    guard let search = endSearch(id) else { return }
    if let family = address.addressFamily { searches.worked(family, for: search.key) }
    if var datagram = sends.queue.datagram(ofName: id) {
      datagram.remoteAddress = address
      // The filter is not called within the queue, because it may send. If it closes the endpoint, the entry has failed.
      let passed: Datagram?
      do { passed = try filtered(datagram) } catch { return }
      sends.queue.resolve(id, to: passed)
    } else {
      sends.queue.resolve(id, .success([address] + search.plan.untried))
    }
    pumpSends()
  }

  @discardableResult
  func endSearch(_ id: UInt64) -> AddressSearch? {
    guard let search = searches.remove(id) else { return nil }
    search.cancel()
    if let timer = search.timer { registration.disarm(timer) }
    return search
  }

  /// Why no datagram can be sent to an address now: no socket of the endpoint is for it, or the kernel has no route. The kernel is asked on
  /// another socket, as getaddrinfo(3) does; connect(2) of a datagram socket sends nothing.
  private func obstacle(to address: SocketAddress, asPeer: Bool) -> SocketError? {
    do throws(SocketError) {
      // A connected peer was reached before.
      if !asPeer, try core.route(address).destination == nil { return nil }
      let operation = asPeer ? "connect" : "send"
      let route = try core.routes.routeWithoutPeer(address, for: operation)
      let destination = (route.destination ?? address).unmapped
      if destination.isUnix { return nil }
      guard let probe = try? OwnedDescriptor.datagramSocket(family: destination.family) else { return nil }
      do throws(SystemError) {
        if let device = configuration.device { try probe.socket.bind(toDevice: device) }
        let local = core.routes.sockets[route.index].address
        if !local.isUnspecified { try probe.socket.bind(to: local.with(port: 0)) }
        _ = try probe.socket.connect(to: destination)
        return nil
      } catch {
        throw SocketError(error, operation: operation, address: address)
      }
    } catch {
      // Other errors may concern only the probe. If the address has a problem, the call itself fails.
      return HappyEyeballs.noWay.contains(error.code) || error.code == .invalidArgument ? error : nil
    }
  }
}
