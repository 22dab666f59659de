internal import EpollReactor
internal import SocketSystem

// Which address of a name a datagram goes to, or the endpoint connects to. `HappyEyeballs` decides, as for connections.

/// The search for the address of a name.
struct AddressSearch: Sendable {
  var plan: HappyEyeballs
  /// The name, as names are compared.
  let key: [UInt8]
  /// Whether the endpoint is to be connected to the address, and not only to send to it.
  let isForPeer: Bool
  let task: Task<Void, Never>
  var timer: DeadlineKey?

  func cancel() { task.cancel() }
}

extension UDPEndpoint {
  /// The largest number of names whose family an endpoint remembers.
  static var rememberedNames: Int { 64 }

  /// Resolves an endpoint that the user passed into addresses, or into a name to look up.
  func target(_ endpoint: Endpoint, _ operation: String) throws(SocketError) -> Endpoint.Target {
    let target = try endpoint.connectTarget(operation)
    guard case .addresses(let addresses) = target else { return target }
    return .addresses(try configuration.addressPreference.sorted(addresses))
  }

  /// Returns the first address to which a datagram can be sent. If there is no such address, returns one whose error says why.
  func firstReachable(of addresses: [SocketAddress]) -> SocketAddress? {
    if addresses.count < 2 { return addresses.first }
    return addresses.first { obstacle(to: $0, asPeer: false) == nil }
      ?? addresses.first { address in sockets.contains { $0.kind.reaches(address.unmapped) } } ?? addresses.first
  }

  /// Looks up a name for an entry of the send queue.
  func lookUp(_ name: String, _ port: UInt16, for id: UInt64) {
    let preference = configuration.addressPreference
    let key = name.hostNameBytes
    let worked = preference.isOpen ? familiesThatWorked[key] : nil
    let families = preference.families.filter { family in sockets.contains { $0.kind.serves(family) } }
      .sorted { $0 == worked && $1 != worked }
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
    lookUps[id] = AddressSearch(
      plan: HappyEyeballs(awaiting: families, of: preference, attemptDelay: 0), key: key,
      isForPeer: isForPeer, task: task)
  }

  private func lookedUp(_ family: AddressFamily, _ outcome: HostLookups.Outcome, for id: UInt64) {
    lookUps[id]?.plan.resolved(family, outcome, at: registration.reactor.now)
    search(for: id)
  }

  func searchIsDue(_ id: UInt64) {
    lookUps[id]?.timer = nil
    search(for: id)
  }

  /// Carries out what the plan says.
  private func search(for id: UInt64) {
    while let isForPeer = lookUps[id]?.isForPeer, let step = lookUps[id]?.plan.next(at: registration.reactor.now) {
      switch step {
      case .attempt(let attempt):
        guard let obstacle = obstacle(to: attempt.address, asPeer: isForPeer) else {
          return found(attempt.address, for: id)
        }
        lookUps[id]?.plan.failed(attempt, obstacle, at: registration.reactor.now)
      case .wait(let time):
        if let timer = lookUps[id]?.timer.take() { registration.disarm(timer) }
        lookUps[id]?.timer = time.flatMap { registration.arm(at: $0, tag: DatagramDeadline.search(id).rawValue) }
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
    if let family = address.addressFamily {
      if familiesThatWorked[search.key] == nil, familiesThatWorked.count >= Self.rememberedNames {
        familiesThatWorked = [:]
      }
      familiesThatWorked[search.key] = family
    }
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

  /// Ends the search for the address of an entry's name, if there is one.
  @discardableResult
  func endSearch(_ id: UInt64) -> AddressSearch? {
    guard let search = lookUps.removeValue(forKey: id) else { return nil }
    search.cancel()
    if let timer = search.timer { registration.disarm(timer) }
    return search
  }

  /// Returns why no datagram can be sent to an address now: no socket of the endpoint is for it, or the kernel has no route. The kernel is
  /// asked on another socket, as getaddrinfo(3) does; connect(2) of a datagram socket sends nothing.
  private func obstacle(to address: SocketAddress, asPeer: Bool) -> SocketError? {
    do throws(SocketError) {
      // A connected peer was reached before.
      if !asPeer, try route(address).destination == nil { return nil }
      let (index, found) = try socketIndex(for: address)
      let destination = found.unmapped
      if destination.isUnix { return nil }
      guard let probe = try? OwnedDescriptor.datagramSocket(family: destination.family) else { return nil }
      do throws(SystemError) {
        if let device = configuration.device { try probe.socket.bind(toDevice: device) }
        let local = localAddresses[index]
        if !local.isUnspecified { try probe.socket.bind(to: local.with(port: 0)) }
        _ = try probe.socket.connect(to: destination)
        return nil
      } catch {
        throw SocketError(error, operation: asPeer ? "connect" : "send", address: address)
      }
    } catch {
      // Other errors may concern only the probe. If the address has a problem, the call itself fails.
      return HappyEyeballs.noWay.contains(error.code) || error.code == .invalidArgument ? error : nil
    }
  }
}
