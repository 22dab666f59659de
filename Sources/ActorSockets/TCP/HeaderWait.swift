internal import EpollReactor
internal import SocketSystem

// An accepted connection waits for the PROXY header before it is up. Its operations queue until then, as they do while connecting.
//
//   awaiting ──header──▶ up: the addresses are the header's
//      │ ├─no header, and it is optional──▶ up: the addresses are the socket's
//      │ └─the time is over, nothing has arrived, and it is optional──▶ up, as above
//      └─anything else──▶ aborted, with the error

/// The state that an accepted connection has only while it waits for its PROXY header.
final class HeaderWait {
  let settings: ProxyProtocol
  /// The address of the balancer.
  let peer: SocketAddress?
  var preamble: HeaderPreamble
  var negotiation = Negotiation()
  var deadline: DeadlineKey?
  private let registration: Registration

  init(_ settings: ProxyProtocol, from peer: SocketAddress?, _ registration: Registration) {
    self.settings = settings
    self.peer = peer
    self.registration = registration
    preamble = HeaderPreamble(settings)
  }

  deinit { registration.disarmAnywhere(deadline) }

  func end() {
    if let deadline = deadline.take() { registration.disarm(deadline) }
  }
}

extension TCPConnection {
  func awaitHeader(_ wait: HeaderWait) {
    wait.deadline = registration.arm(
      at: instant(registration.reactor.now, plus: wait.settings.timeLimit.clampedNanoseconds),
      tag: DeadlineTag(.header))
    receiveHeader(wait, after: .none)
  }

  func receiveHeader(_ wait: HeaderWait, after readiness: Readiness) {
    guard let socket = registration.socket else { return }
    do throws(SocketError) {
      let isDone = try wait.negotiation.proceed(&wait.preamble, on: socket, after: readiness, registration.reactor)
      if isDone { isUp(behind: wait.preamble.header, wait) }
    } catch {
      headerFailed(error, wait)
    }
  }

  func headerTimedOut() {
    guard let wait = transport.headerWait else { return }
    wait.deadline = nil
    if wait.settings.policy == .optional, !wait.preamble.hasBegun { return isUp(behind: nil, wait) }
    let detail = "it did not arrive within \(wait.settings.timeLimit.brief)"
    headerFailed(SocketError(.timedOut, operation: "PROXY header", detail: detail), wait)
  }

  private func isUp(behind header: ProxyHeader?, _ wait: HeaderWait) {
    identity.withLock {
      $0.remoteAddress = header?.source?.unmapped ?? wait.peer?.unmapped
      $0.route = header.map { Route(proxyAddress: wait.peer?.unmapped, header: $0) }
    }
    transport.endOpening()
    core.open()
  }

  private func headerFailed(_ error: SocketError, _ wait: HeaderWait) {
    var error = error
    error.address = wait.peer?.unmapped
    core.terminate(error, error.code == .timedOut ? .timedOut : .error(error))
  }
}

extension TCPListener {
  /// Also counts the connection among those of its client. Not inlined, because the frame of its caller is part of every idle connection.
  @inline(never)
  package nonisolated func headerArrives(on connection: TCPConnection) async throws {
    do {
      try await connection.waitUntilOpen()
    } catch {
      // Observers were notified of it, as of a handshake that failed.
      throw HandlerError(error, isBeforeHandler: true)
    }
    try await admit(connection)
  }

  private func admit(_ connection: TCPConnection) throws {
    let client = connection.remoteAddress
    let hasRoom = hasRoom(for: client)
    server.peers.enter(connection.id, from: client)
    if hasRoom { return }
    let error = SocketError(
      .limitExceeded, operation: "serve", detail: "the client has too many connections", address: client)
    throw HandlerError(error, isBeforeHandler: true, isObserved: false)
  }
}
