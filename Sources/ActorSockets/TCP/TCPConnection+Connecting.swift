internal import EpollReactor
internal import SocketSystem

// Connecting: the resolver looks the name up, `HappyEyeballs` decides which address to try, and each attempt has its own socket and
// registration. The first socket that connects is used; the others are closed. The preambles, such as the conversation with a proxy, use
// that socket. Then its descriptor moves to the connection's registration. If any of this fails, the next try begins anew, if there is one.

extension TCPConnection {
  func begin() {
    // The connection may have been closed before this job ran.
    guard core.state == .connecting, enter(), let attempt = transport.attempt else { return }
    attempt.armDeadline()
    beginTry(attempt)
  }

  private func beginTry(_ attempt: ConnectAttempt) {
    if isOutOfTime(attempt) { return }
    let current = attempt.beginTry()
    let configuration = attempt.configuration
    let attemptDelay = configuration.attemptDelay.clampedNanoseconds
    if let retries = attempt.retries {
      let end = instant(registration.reactor.now, plus: retries.tryTimeout.clampedNanoseconds)
      current.deadline = registration.arm(at: end, tag: DeadlineTag(.tryLimit))
    }
    do throws(SocketError) {
      current.preambles = try configuration.preambles(to: attempt.endpoint)
      let target = try (configuration.proxy?.endpoint ?? attempt.endpoint).connectTarget()
      try configuration.check("connect")
      if let source = configuration.source { current.sources = try SourceAddresses(source) }
      switch target {
      case .addresses(let addresses):
        let sorted = try configuration.addressPreference.sorted(addresses, for: "connect")
        current.plan = HappyEyeballs(trying: sorted, attemptDelay: attemptDelay)
      case .name(let name, let port):
        current.plan = HappyEyeballs(awaiting: configuration.addressPreference, attemptDelay: attemptDelay)
        let number = attempt.tries
        current.lookUp(name, configuration) { [weak self] family, outcome in
          self?.submit { $0.lookedUp(family, outcome, port: port, inTry: number) }
        }
      }
      proceed()
    } catch {
      fail(error)
    }
  }

  /// The try that still searches for an address that answers.
  private var search: ConnectTry? {
    guard let current = transport.attempt?.current, current.negotiating == nil else { return nil }
    return current
  }

  private func lookedUp(_ family: AddressFamily, _ outcome: HostLookups.Outcome, port: UInt16, inTry number: Int) {
    guard let search, transport.attempt?.tries == number else { return }
    search.plan.resolved(family, outcome.map { $0.map { $0.with(port: port) } }, at: registration.reactor.now)
    proceed()
  }

  func planDeadlineReached() {
    search?.timer = nil
    proceed()
  }

  private func proceed() {
    while let search, let attempt = transport.attempt {
      switch search.plan.next(at: registration.reactor.now) {
      case .attempt(let next):
        if isOutOfTime(attempt) { return }
        begin(next, in: search, attempt.configuration)
      case .wait(let time):
        if let timer = search.timer.take() { registration.disarm(timer) }
        search.timer = time.flatMap { registration.arm(at: $0, tag: DeadlineTag(.nextAttempt)) }
        return
      case .fail(let error):
        return fail(error)
      }
    }
  }

  private func begin(_ next: HappyEyeballs.Attempt, in search: ConnectTry, _ configuration: Configuration) {
    do throws(SocketError) {
      // A resolver may return an IPv4-mapped address.
      let address = next.address.unmapped
      let source = try search.sources?.source(for: address)
      let destination = try address.scoped(by: source, isOnDevice: configuration.device != nil, for: "connect")
      let descriptor = try makeSocket(for: destination, from: source, configuration)
      do throws(SocketError) {
        try configuration.prepare(connecting: descriptor.socket, to: destination)
      } catch {
        // The options or the closure refused the socket: another address, or another try, would fail in the same way.
        return fail(error, isFinal: true)
      }
      let isConnected: Bool
      do throws(SystemError) {
        isConnected = try descriptor.socket.connect(to: destination)
      } catch {
        if destination.isUnix, error.errno == Errno.wouldBlock {
          return search.plan.foundBacklogFull(next, at: registration.reactor.now)
        }
        throw SocketError(error, operation: "connect", address: destination)
      }
      let connecting = ConnectingSocket(
        next, destination, descriptor, mayBeShared: configuration.lendsDescriptors, of: self)
      try enter(connecting)
      search.sockets[next.id] = connecting
      if isConnected { established(connecting, search, after: .none) }
    } catch {
      search.plan.failed(next, error, at: registration.reactor.now)
    }
  }

  private func enter(_ connecting: ConnectingSocket) throws(SocketError) {
    do throws(Registration.EnterError) {
      try connecting.registration.enter(connecting)
    } catch {
      switch error {
      case .reactorIsShutDown: throw SocketError(.reactorShutDown, operation: "connect")
      case .system(let error): throw SocketError(error, operation: "connect", address: connecting.destination)
      }
    }
  }

  private func makeSocket(
    for destination: SocketAddress, from source: SocketAddress?, _ configuration: Configuration
  ) throws(SocketError) -> OwnedDescriptor {
    do throws(SystemError) {
      let descriptor = try OwnedDescriptor.connectingSocket(family: destination.family)
      if !destination.isUnix, let device = configuration.device { try descriptor.socket.bind(toDevice: device) }
      if let source { try bind(descriptor.socket, to: source) }
      return descriptor
    } catch {
      if error.errno == Errno.noDevice, let device = configuration.device {
        throw SocketError(
          .interfaceNotFound, operation: "connect",
          detail: "this machine has no interface \(AddressError.quote(device))", address: destination)
      }
      let operation = error.call == "bind" ? "connect from" : "connect"
      throw SocketError(error, operation: operation, address: error.call == "bind" ? source : destination)
    }
  }

  private func bind(_ socket: BorrowedDescriptor, to source: SocketAddress) throws(SystemError) {
    if source.port == 0 {
      // The kernel then chooses the port in connect(2), where one port can serve several destinations: ip(7).
      try? socket.set(.bindAddressNoPort, to: 1)
    } else if !source.isUnix {
      // Attempts to several addresses use the same local port.
      try socket.set(.reuseAddress, to: 1)
    }
    try socket.bind(to: source)
  }

  func handle(_ readiness: Readiness, of connecting: ConnectingSocket) {
    guard let current = transport.attempt?.current else { return }
    if current.negotiating === connecting {
      negotiate(on: connecting, current, after: readiness)
    } else if current.sockets[connecting.attempt.id] === connecting, readiness.contains(.connectFinished) {
      becameReady(connecting, current, readiness)
    }
  }

  private func becameReady(_ connecting: ConnectingSocket, _ current: ConnectTry, _ readiness: Readiness) {
    let number = (try? connecting.registration.socket?.get(.pendingError)) ?? 0
    if number == 0 {
      // The socket is not connected yet: this event was spurious.
      guard (try? connecting.registration.socket?.remoteAddress()) != nil else { return }
      established(connecting, current, after: readiness)
    } else {
      drop(connecting, current)
      let error = SystemError(call: "connect", errno: number)
      current.plan.failed(
        connecting.attempt, SocketError(error, operation: "connect", address: connecting.destination),
        at: registration.reactor.now)
    }
    proceed()
  }

  private func drop(_ connecting: ConnectingSocket, _ current: ConnectTry) {
    current.sockets[connecting.attempt.id] = nil
    connecting.registration.leave()
  }

  private func established(_ connecting: ConnectingSocket, _ current: ConnectTry, after readiness: Readiness) {
    let destination = connecting.destination
    let local = try? connecting.registration.socket?.localAddress()
    // The kernel replaces the unspecified address, so only it knows the peer. The name of a unix socket stays the one that was given.
    let remote = destination.isUnix ? destination : try? connecting.registration.socket?.remoteAddress()
    if let local, local == remote, !local.isUnix {
      drop(connecting, current)
      return current.plan.connectedToItself(connecting.attempt, at: registration.reactor.now)
    }
    current.negotiate(on: connecting, local: local, remote: remote ?? destination)
    negotiate(on: connecting, current, after: readiness)
  }

  private func negotiate(on connecting: ConnectingSocket, _ current: ConnectTry, after readiness: Readiness) {
    guard let attempt = transport.attempt, let socket = connecting.registration.socket else { return }
    do throws(SocketError) {
      while !current.preambles.isEmpty {
        let isDone = try current.negotiation.proceed(
          &current.preambles[0], on: socket, after: readiness, registration.reactor)
        if !isDone { return }
        current.preambles.removeFirst()
      }
      try takeOver(connecting, attempt)
    } catch {
      var error = error
      error.address = connecting.destination
      fail(error)
    }
  }

  private func takeOver(_ connecting: ConnectingSocket, _ attempt: ConnectAttempt) throws(SocketError) {
    let (local, remote) = (attempt.current?.local, attempt.current?.remote)
    do throws(SystemError) {
      try registration.takeDescriptor(of: connecting.registration)
    } catch {
      throw SocketError(error, operation: "connect")
    }
    if connecting.destination.isUnix { transport.isNotTCP() }
    let isProxy = attempt.configuration.proxy != nil
    identity.withLock {
      $0.localAddress = local
      $0.remoteAddress = isProxy ? attempt.endpoint.address : remote
      if isProxy { $0.route = Route(proxyAddress: remote) }
    }
    transport.endOpening()
    core.open()
  }

  // MARK: Failing

  private func fail(_ error: SocketError, isFinal: Bool = false) {
    guard let attempt = transport.attempt else { return core.terminate(error, .error(error)) }
    var random = SystemRandomNumberGenerator()
    guard !isFinal, let delay = attempt.retries?.delay(after: error, &random) else {
      let error = attempt.retries?.final(error) ?? error
      return core.terminate(error, .error(error))
    }
    attempt.endTry()
    let time = instant(registration.reactor.now, plus: delay)
    attempt.nextTry = registration.arm(at: time, tag: DeadlineTag(.nextTry))
    core.observation?.willRetry(error, after: .nanoseconds(delay))
  }

  func nextTryIsDue() {
    guard let attempt = transport.attempt else { return }
    attempt.nextTry = nil
    beginTry(attempt)
  }

  func tryTimedOut() {
    guard let attempt = transport.attempt, let current = attempt.current, let retries = attempt.retries else { return }
    current.deadline = nil
    fail(current.timedOut("within \(retries.tryTimeout.brief)"))
  }

  func connectTimedOut() {
    guard let attempt = transport.attempt, !attempt.extend(at: registration.reactor.now) else { return }
    core.terminate(attempt.outOfTime, .timedOut)
  }

  /// Ends connecting if its time is over: the deadline may have passed before the call, or while other code kept the reactor. Returns
  /// whether connecting has ended.
  private func isOutOfTime(_ attempt: ConnectAttempt) -> Bool {
    if attempt.isOver(at: registration.reactor.now) { connectTimedOut() }
    return transport.attempt == nil
  }
}

extension TCPConnection.Configuration {
  fileprivate func preambles(to endpoint: Endpoint) throws(SocketError) -> [any Preamble] {
    var preambles: [any Preamble] = []
    if let proxy { preambles.append(try proxy.preamble(to: endpoint)) }
    if let proxyHeader { preambles.append(SendPreamble(try proxyHeader.encoded())) }
    return preambles
  }
}

extension Endpoint {
  var address: SocketAddress? {
    guard case .addresses(let addresses)? = try? connectTarget(), addresses.count == 1 else { return nil }
    return addresses[0]
  }
}
