internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  enum Transmission {
    case sent
    /// It is a reply that cannot be delivered.
    case undelivered
    case noRoom(isShortage: Bool)
  }

  /// `failure` is the outcome of an attempt by another thread. It counts as the first one here.
  func transmit(
    _ bytes: Span<UInt8>, _ route: DatagramRoutes.Route, isReply: Bool, after failure: inout SystemError?
  ) throws(SocketError) -> Transmission {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    var attempts = SendAttempts()
    while true {
      guard let socket = core.routes.sockets[route.index].socket else { throw SocketError(.closed, operation: "send") }
      switch failure.take().map({ .failed($0) }) ?? socket.send(bytes, to: route.destination) {
      case .bytes:
        if let suspect = attempts.suspect { reportStale(suspect) }
        core.sent()
        counts.sent(1, bytes: bytes.count)
        return .sent
      case .wouldBlock:
        if let suspect = attempts.suspect { reportStale(suspect) }
        return .noRoom(isShortage: false)
      case .failed(let error):
        if error.isShortage {
          if let suspect = attempts.suspect { reportStale(suspect) }
          return .noRoom(isShortage: true)
        }
        if isOfEarlierDatagram(error, &attempts, isReply: isReply) {
          if !isReply, let error = core.reportedError.take() { throw error.during("send") }
          continue
        }
        let address = receiver(on: route)
        let reason = self.failure(error, address, bytes.count)
        if !isReply || error.isOfProgram(bytes.count, to: address) { throw reason }
        undelivered(reason)
        return .undelivered
      }
    }
  }

  /// Returns whether a call may have failed because of an error about an earlier datagram. If so, the caller repeats the call.
  private func isOfEarlierDatagram(_ error: SystemError, _ attempts: inout SendAttempts, isReply: Bool) -> Bool {
    let mayBeOfEarlier = !core.isUnix && (core.routes.peer == nil || isReply)
    switch attempts.failed(error, mayBeOfEarlier: mayBeOfEarlier, { takeReportedErrors() > 0 }) {
    case .fail: return false
    case .tryAgain: return true
    case .reportAndTryAgain(let earlier):
      reportStale(earlier)
      return true
    }
  }

  /// Reports an error about an earlier datagram, of which nothing else is known.
  func reportStale(_ error: SystemError) {
    report(SocketError(error, operation: "send", address: core.routes.peer?.address), from: nil)
  }

  func noRoom(_ index: Int, for address: SocketAddress?, isShortage: Bool) {
    // Also what was sent if the gate is closed already, because it makes the pause short again.
    _ = gate.close()
    noteSentThroughGate()
    let now = registration.reactor.now
    let wait = core.noRoom(index, isShortage: isShortage, at: now)
    if case .destination(let isAnnounced) = wait { sends.queue.full(address, at: now, isAnnounced: isAnnounced) }
    if wait.isAnnounced { core.routes.sockets[index].registration.report(.writable, true) }
    armRetry()
  }

  /// Room is reported no more if nothing has waited for it since the event.
  func noteRoom() {
    if core.mustWaitToSend || !sends.queue.lines.isEmpty { return }
    for bound in core.routes.sockets { bound.registration.report(.writable, false) }
  }

  func armRetry() {
    let next = min(core.nextRetry, sends.queue.lines.nextRetry ?? .max)
    if next == .max { return }
    if let retry = core.armedRetry {
      if retry.time <= next { return }
      registration.disarm(retry.key)
    }
    core.armedRetry = registration.arm(at: next, tag: DeadlineTag(.retry)).map { ($0, next) }
  }

  /// A datagram is not delivered, without an error for its call.
  func undelivered(_ error: SocketError) {
    counts.undelivered += 1
    errorReports.add(ErrorReport(error: error, reporter: nil, largestPacket: nil))
  }

  /// Also counts the datagram, if it is dropped.
  func dropsAtFull(_ address: SocketAddress?, isShortage: Bool) -> Bool {
    guard configuration.fullDestination == .drop, isShortage || core.isUnix else { return false }
    undelivered(.noRoom(address ?? core.routes.peer?.address))
    return true
  }

  private func failure(_ error: SystemError, _ address: SocketAddress?, _ count: Int) -> SocketError {
    switch error.errno {
    case Errno.messageTooLong:
      SocketError(
        .limitExceeded, operation: "send", detail: "\(count) bytes are more than a datagram to this address can have",
        errno: error.errno, address: address)
    case Errno.permissionDenied where !configuration.broadcast && address?.isBroadcast == true:
      SocketError(
        .permissionDenied, operation: "send",
        detail: "this is a broadcast address, which needs the configuration's `broadcast`",
        errno: error.errno, address: address)
    case Errno.notImplemented: SocketError.passesOnlySimulated("send")
    case Errno.wrongType where address?.isUnix == true:
      SocketError(
        .system, operation: "send", detail: "the socket at this path is not a datagram socket", errno: error.errno,
        address: address)
    default:
      // For the path of a unix socket, the errors mean the same as in connect(2).
      SocketError(
        SystemError(call: address?.isUnix == true ? "connect" : error.call, errno: error.errno), operation: "send",
        address: address)
    }
  }

  /// Sends the first datagrams that use the same socket with one system call. Returns the part of the budget that it uses: the number of
  /// datagrams that were sent or have failed, at least 1.
  func sendQueued() -> Int {
    guard let batch = registration.reactor.datagramBatch() else {
      firstFailed(Unsendable(SocketError(.system, operation: "send", errno: Errno.noMemory)))
      return 1
    }
    var attempts = SendAttempts()
    while true {
      do throws(Unsendable) {
        guard let gathered = try gather(into: batch) else { return 1 }
        guard let socket = core.routes.sockets[gathered.index].socket else {
          throw Unsendable(lifecycle.failure?.during("send") ?? SocketError(.closed, operation: "send"))
        }
        do throws(SystemError) {
          let sent = try batch.send(on: socket)
          if sent == 0 { noRoom(for: gathered, isShortage: false) } else { noteSent(sent, of: batch, gathered) }
          // Last, because a filter of the program may run then, and may close the endpoint.
          if let suspect = attempts.suspect { reportStale(suspect) }
          return max(1, sent)
        } catch {
          if error.isShortage {
            noRoom(for: gathered, isShortage: true)
            return 1
          }
          if isOfEarlierDatagram(error, &attempts, isReply: gathered.first.isReply) {
            if !gathered.first.isReply, let reported = core.reportedError.take() {
              throw Unsendable(reported.during("send"))
            }
          } else if core.lowerSegmentLimit(gathered.index, after: error, of: batch.firstSegmentSize) {
            attempts.restart()
          } else {
            throw Unsendable(
              failure(error, gathered.first.address, gathered.first.count),
              isOfPeer: !error.isOfProgram(gathered.first.count, to: gathered.first.address))
          }
        }
      } catch {
        firstFailed(error)
        return 1
      }
    }
  }

  private func noteSent(_ sent: Int, of batch: DatagramBatch, _ gathered: Gathered) {
    core.sent()
    for (datagram, route) in gathered.recorded.prefix(sent) {
      recordSent(datagram.bytes.span, on: route, datagram.metadata)
    }
    sends.queue.sent(sent)
    counts.sent(sent, bytes: batch.bytes(ofFirst: sent))
    // The kernel has copies now. Close the descriptors here, because the entry may wait until its other datagrams are sent.
    for (index, descriptors) in gathered.passed where index < sent { descriptors.closeAll() }
  }

  private func noRoom(for gathered: Gathered, isShortage: Bool) {
    if dropsAtFull(gathered.first.address, isShortage: isShortage) { return sends.queue.dropped() }
    noRoom(gathered.index, for: sends.queue.first?.datagram.remoteAddress, isShortage: isShortage)
  }

  private struct Unsendable: Error {
    let error: SocketError
    /// The peer is the reason, so a reply is dropped.
    let isOfPeer: Bool

    init(_ error: SocketError, isOfPeer: Bool = false) {
      self.error = error
      self.isOfPeer = isOfPeer
    }
  }

  /// The first datagram of the queue fails, or is dropped if it is a reply.
  private func firstFailed(_ failure: Unsendable) {
    guard let (datagram, sender) = sends.queue.first else { return }
    if case .call = sender, !failure.isOfPeer || !isLenientReply(datagram) { return sends.queue.failed(failure.error) }
    undelivered(failure.error)
    sends.queue.dropped()
  }

  /// A reply that fails no call if it cannot be delivered.
  @inline(__always)
  func isLenientReply(_ datagram: Datagram) -> Bool {
    datagram.isReply && !configuration.throwsUndeliverableReplies
  }

  /// `nil` for a peer without a name.
  private func receiver(on route: DatagramRoutes.Route) -> SocketAddress? {
    route.destination?.unmapped ?? core.routes.peer?.address
  }

  private struct Gathered {
    let index: Int
    /// The peer and the number of bytes of the first datagram, and whether it is a reply that fails no call.
    let first: (address: SocketAddress?, count: Int, isReply: Bool)
    /// The descriptors that go with a datagram, and the datagram's index in the batch.
    var passed: [(index: Int, descriptors: DescriptorBundle)] = []
    /// The datagrams of the batch, if they are recorded.
    var recorded: [(datagram: Datagram, route: DatagramRoutes.Route)] = []
  }

  /// Puts the first datagrams of the queue that use the same socket into a batch; `nil` if the queue is empty. Throws why the first
  /// datagram cannot be sent.
  private func gather(into batch: DatagramBatch) throws(Unsendable) -> Gathered? {
    batch.clear()
    var gathered: Gathered?
    let most = min(DatagramBatch.capacity, sends.budget.operations)
    for datagram in sends.queue.unsent(atMost: most, where: { !isOverdue($0) }) {
      let isReply = isLenientReply(datagram)
      do throws(SocketError) {
        try checkSize(datagram.bytes.count)
        let route = try core.route(datagram.remoteAddress, isReply: isReply)
        if let gathered, gathered.index != route.index { break }
        let metadata = datagram.metadata.flatMap { $0.isEmpty ? nil : $0 }
        let descriptors = try checked(datagram.descriptors, through: route.index)
        guard
          batch.add(
            datagram.bytes.span, to: route.destination, metadata,
            isIPv6: metadata != nil && receiver(on: route)?.isIPv6 == true, passing: descriptors,
            segmentLimit: core.routes.sockets[route.index].segmentLimit)
        else {
          if gathered != nil { break }
          // It does not fit even into an empty batch.
          throw failure(
            SystemError(call: "sendmmsg", errno: Errno.messageTooLong), receiver(on: route), datagram.bytes.count)
        }
        if gathered == nil {
          gathered = Gathered(index: route.index, first: (receiver(on: route), datagram.bytes.count, isReply))
        }
        if let descriptors { gathered?.passed.append((batch.count - 1, descriptors)) }
        if counts.recorder != nil { gathered?.recorded.append((datagram, route)) }
      } catch {
        // Send the earlier datagrams first.
        if gathered != nil { break }
        let flaw = isReply ? DatagramRoutes.flaw(ofSender: datagram.remoteAddress) : nil
        throw Unsendable(flaw ?? error, isOfPeer: flaw != nil)
      }
    }
    return gathered
  }

}

extension SystemError {
  /// The program, and not the destination, is the reason why a datagram of `count` bytes cannot be sent.
  fileprivate func isOfProgram(_ count: Int, to address: SocketAddress?) -> Bool {
    if errno == Errno.messageTooLong {
      // Any shorter one may be too long for the path, whose limit the peer or a router may lower by a report.
      switch address {
      case .ipv4: return count > 65_507
      case .ipv6: return count > 65_527
      case .unix, nil: return true
      }
    }
    return [Errno.tooManyReferences, Errno.notImplemented, Errno.badDescriptor, Errno.notSocket].contains(errno)
  }

  /// The kernel lacks memory, or the interface's queue is full.
  fileprivate var isShortage: Bool { errno == Errno.noBuffers || errno == Errno.noMemory }
}

extension SocketError {
  static func noRoom(_ address: SocketAddress?) -> SocketError {
    SocketError(.limitExceeded, operation: "send", detail: "the destination has no room", address: address)
  }
}
