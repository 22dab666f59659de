internal import EpollReactor

// How a stream ends.
//
//            close(after:)            close()                 queue of writes empty
//    no ──────────────────▶ after ───────────────▶ flushing ───────────────────────▶ leaving ──▶ done
//     │                                               │ close timeout                            ▲
//     └── could not connect, abort(), shutdown ───────┴──────────────────────────────────────────┘
//
// - `after`: nothing new is taken; the reads or writes that wait are finished first.
// - `flushing`: reads have failed; writes go out until the close timeout.
// - `leaving`: the transport makes sure that what was sent is not destroyed by closing.
// - `done`: the descriptor is gone, and every operation and every waiter has its outcome.
//
// A connection that breaks keeps `no`, so that the bytes that came before can still be received; its report is there
// from that moment on.

/// Where a stream is on its way out.
enum Closing {
  case no
  case after(CloseCondition)
  case flushing
  case leaving
  case done

  var isUnderWay: Bool {
    switch self {
    case .no, .done: false
    case .after, .flushing, .leaving: true
    }
  }
}

extension StreamCore {
  /// Refuses what is new, fails the reads, flushes the writes, and then lets go.
  package func beginClose() {
    if let upgrade { return upgrade.layer.close(after: nil) }
    switch closing {
    case .no, .after: break
    case .flushing, .leaving, .done: return
    }
    if state == .connecting || brokenBy != nil {
      return terminate(
        SocketError(.closed, operation: ""), closeReason ?? (state == .connecting ? .byUs : nil),
        givingUp: state == .connecting)
    }
    closing = .flushing
    state = .closing
    armCloseDeadline()
    if !closesAtEnd { reads.refuse(SocketError(.closed, operation: "read")) }
    pumpReads()
    pumpWrites()
  }

  /// The user closes: from now on reads fail, also those of a stream that was closing because of its end.
  func userCloses() {
    guard closesAtEnd else { return }
    closesAtEnd = false
    reads.refuse(SocketError(.closed, operation: "read"))
    pumpReads()
  }

  /// Refuses what is new, and closes when what waits is finished.
  package func beginClose(after condition: CloseCondition) {
    if let upgrade { return upgrade.layer.close(after: condition) }
    guard case .no = closing else { return }
    closing = .after(condition)
    if state == .open { state = .closing }
    if condition == .pendingWrites, state == .closing { armCloseDeadline() }
    continueClosing()
  }

  /// Starts the close timeout, in place of one that was started before.
  func armCloseDeadline() {
    if let deadline = closeDeadline.take() { registration.disarm(deadline) }
    closeDeadline = registration.arm(
      at: instant(registration.now, plus: options.closeTimeout.clampedNanoseconds), tag: StreamDeadline.close.rawValue)
  }

  /// Takes the next step on the way out if its condition holds.
  func continueClosing() {
    switch closing {
    case .no:
      // At the end, when nobody reads any more and nothing is left to read.
      if options.closesOnEndOfStream, peerIsFinished, reads.count == 0, reads.buffer.isEmpty, transport.isAtEnd {
        closesAtEnd = true
        reads.end(.endOfStream)
        beginClose()
      }
    case .leaving, .done:
      break
    case .after(let condition):
      let readsAreDone = reads.count == 0 || condition == .pendingWrites
      let writesAreDone = writes.isEmpty && acknowledgementWait == nil || condition == .pendingReads
      if readsAreDone, writesAreDone {
        beginClose()
      }
    case .flushing:
      // Not while a pump is at work: what it still has to do would find nobody who gives it another turn.
      if writes.isEmpty, !isPumping { leave() }
    }
  }

  private func leave() {
    closing = .leaving
    idleWatch?.stop()
    failFlushes(endError)
    if let deadline = closeDeadline.take() { registration.disarm(deadline) }
    let owner = self.owner
    let isGone = transport.close { owner?.submit { $0.core.transportIsGone() } }
    if isGone { transportIsGone() }
  }

  /// The transport has let go.
  package func transportIsGone() {
    switch closing {
    case .leaving:
      let failure = lost.flatMap { $0.bytes > 0 ? CloseReport.Reason($0.error) : nil }
      conclude(closeReason ?? failure ?? (peerIsFinished ? .byPeer : .byUs), unsent: bytesNotSent)
      finishClosing()
    case .done: descriptorIsGone()
    case .no, .after, .flushing: break
    }
  }

  /// Ends the stream as `abort()` asks.
  ///
  /// A layer that has failed may have sent the peer a fatal alert, which a reset could overtake. So the stream then closes as
  /// with `close()`, but the peer has only 2 seconds to take the bytes that are left.
  func abortOnRequest() {
    if let layer = carriedLayer, layer.hasFailed { layer.endAfterFailure() }
    guard endsAfterFailure, closing.isUnderWay else {
      terminate(SocketError(.closed, operation: ""), nil)
      return transport.hasten()
    }
    if case .flushing = closing, options.closeTimeout > Self.failureTimeout {
      options.closeTimeout = Self.failureTimeout
      armCloseDeadline()
    }
  }

  private static var failureTimeout: Duration { .seconds(2) }

  /// Ends everything now: what waits fails with `error`, the peer sees a reset.
  ///
  /// - Parameters:
  ///   - error: What the operations throw.
  ///   - reason: What the report says, unless there is one already.
  ///   - givingUp: It was not up, and the peer need not see a reset.
  package func terminate(_ error: SocketError, _ reason: CloseReport.Reason?, givingUp: Bool = false) {
    if case .done = closing { return }
    let unsent = bytesNotSent
    closing = .done
    if endedBy == nil { endedBy = error }
    idleWatch?.stop()
    if givingUp { transport.giveUp() } else { transport.abort() }
    failFlushes(error)
    conclude(reason ?? .byUs, unsent: unsent)
    // Before its entries in the queues fail: what ended the stream is the cause.
    let layer = upgrade.take()?.layer
    refuseAll(reads: error.during("read"), writes: error.during("write"))
    finishClosing()
    layer?.carrierEnded(error, reason ?? .byUs)
  }

  /// The reactor shuts down.
  package func reactorShutDown() {
    let error = SocketError(.reactorShutDown, operation: "connection")
    terminate(error, .error(error))
  }

  /// Settles how the stream ended, once, and tells those who wait for it.
  func conclude(_ reason: CloseReport.Reason, unsent: Int) {
    if report != nil { return }
    let report = report(reason, unsent: unsent)
    let wasUp = state != .connecting
    self.report = report
    state = .closed
    for waiter in closedWaiters.takeAll() { waiter.resume(.success(report)) }
    for waiter in openWaiters.takeAll() { waiter.resume(.failure(endError.during("connect").thrown)) }
    for waiter in peerFinishedWaiters.takeAll() {
      waiter.resume(.failure(endError.during("peerFinishedWriting").thrown))
    }
    if let observation = observation.take() {
      observation.ended(wasUp ? .success(report) : .failure(endError.during("connect")))
    }
  }

  /// The bytes that are not sent if it ends now.
  var bytesNotSent: Int { lost?.bytes ?? unsentBytes }

  /// How it ends if it ends now.
  func report(_ reason: CloseReport.Reason, unsent: Int) -> CloseReport {
    CloseReport(reason: reason, bytesReceived: bytesReceived, bytesSent: bytesSent, bytesUnsent: unsent)
  }

  /// What an operation throws that comes after the end.
  var endError: SocketError { endedBy ?? brokenBy ?? SocketError(.closed, operation: "") }

  private func finishClosing() {
    closing = .done
    state = .closed
    if let deadline = closeDeadline.take() { registration.disarm(deadline) }
    disarmRest()
    transport.discard()
    if isGone { descriptorIsGone() }
    keepAlive = nil
  }

  /// Whether the stream has ended and its descriptor is closed.
  var isGone: Bool {
    guard case .done = closing else { return false }
    return !transport.isLettingGo
  }

  private func descriptorIsGone() {
    for waiter in goneWaiters.takeAll() { waiter.resume(.success(())) }
    whenGone.take()?()
  }
}

extension CloseReport.Reason {
  /// What broke the connection.
  package init(_ error: SocketError) {
    self =
      switch error.code {
      case .connectionReset: .reset
      case .timedOut: .timedOut
      default: .error(error)
      }
  }
}
