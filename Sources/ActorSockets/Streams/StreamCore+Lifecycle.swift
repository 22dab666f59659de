internal import EpollReactor

// Carries out the actions of the life cycle. StreamLifecycle.swift describes the phases; StreamLifecycle+Actions.swift lists the
// actions in their order.

extension StreamCore {
  // MARK: Requests

  package func beginClose() {
    if let upgrade { return upgrade.layer.close(after: nil) }
    carryOut(lifecycle.closeRequested(currentTraffic))
  }

  package func beginClose(after condition: CloseCondition) {
    if let upgrade { return upgrade.layer.close(after: condition) }
    // No read is admitted any more, so no loop goes on.
    reads.queue.reclaimLookahead()
    carryOut(lifecycle.closeRequested(after: condition))
  }

  /// A stream that already closes by itself fails its reads from now on.
  func userCloses() { carryOut(lifecycle.userCloses()) }

  func abortOnRequest() {
    sendGatheredNow()
    if let layer = carriedLayer, layer.hasFailed { layer.endAfterFailure() }
    carryOut(lifecycle.abortRequested(currentTraffic))
  }

  /// Ends the stream now: waiting operations fail with `error`, and the peer sees a reset, unless the stream was not up and is given up
  /// (`givingUp`). `reason` is for the report, if it is not made yet; `nil` stands for `.local`.
  package func terminate(_ error: SocketError, _ reason: CloseReport.Reason?, givingUp: Bool = false) {
    carryOut(lifecycle.end(error, reason, givingUp: givingUp, currentTraffic))
  }

  package func reactorShutDown() {
    sendGatheredNow()
    let error = SocketError(.reactorShutDown, operation: "connection")
    terminate(error, .error(error))
  }

  package func endIdle(_ error: SocketError) {
    carryOut(lifecycle.idle(error, writes: writes.queue.isEmpty, currentTraffic))
  }

  // MARK: State

  var currentTraffic: StreamTraffic {
    StreamTraffic(received: bytesReceived, sent: bytesSent, unsent: unsentBytes)
  }

  /// Whether the stream has ended and its descriptor is closed.
  var isReleased: Bool { lifecycle.isReleased && transport.encryption?.isLettingGo != true }
  package var endError: SocketError { lifecycle.endError }

  // MARK: Empty queues

  /// Continues everything that depends on empty queues: an upgrade, closing, an abandoned tail, and the reference to the owner.
  func recheckQueues() {
    if isQuiet { return }
    continueUpgrade()
    if lifecycle.admits { closeAtEnd() }
    if !isPumping {
      let (noReads, noWrites) = (reads.queue.count == 0, writes.queue.isEmpty)
      carryOut(
        lifecycle.drained(reads: noReads, writes: noWrites, flushes: acknowledgementWait == nil, currentTraffic))
    }
    let isAlone = writes.queue.count > 0 && writes.queue.waiting == 0 && reads.queue.count == 0
    carryOut(lifecycle.tailRemains(isAlone: isAlone))
    if lifecycle.keepsOwner(writesAreQueued: !writes.queue.isEmpty) {
      if keepAlive == nil { keepAlive = owner }
    } else {
      keepAlive = nil
    }
  }

  /// Whether nothing depends on empty queues. This is true after most steps.
  private var isQuiet: Bool {
    guard lifecycle.isQuiet, keepAlive == nil, writes.queue.isEmpty, upgrade == nil else { return false }
    return !(lifecycle.peerHasFinished && options.closesOnEndOfStream)
  }

  private func closeAtEnd() {
    guard options.closesOnEndOfStream, lifecycle.peerHasFinished, reads.queue.count == 0 else { return }
    reads.queue.reclaimLookahead()
    guard reads.queue.buffer.isEmpty, transport.isAtEnd else { return }
    carryOut(lifecycle.readToEnd(currentTraffic))
  }

  // MARK: Carrying out

  /// Carries out actions in the order in which `StreamLifecycle.Actions` lists them.
  @inline(__always)
  func carryOut(_ actions: StreamLifecycle.Actions) {
    if !actions.isEmpty { carryOutAll(actions) }
  }

  @inline(never)
  private func carryOutAll(_ actions: StreamLifecycle.Actions) {
    // Removed before its entries in the queues fail, so that the layer is told of the end once, with its cause.
    let layer = actions.contains(.release) ? upgrade.take()?.layer : nil
    if actions.contains(.announce) {
      observation?.isUp()
      transport.recording?.streamIsUp()
    }
    if actions.contains(.startIdleWatch) { idleWatch?.start() }
    if actions.contains(.stopIdleWatch) { idleWatch?.stop() }
    carryOutTimed(actions)
    if actions.contains(.reset) { transport.abort() }
    if actions.contains(.giveUp) {
      if let encryption = transport.encryption { encryption.giveUp() } else { transport.abort() }
    }
    if actions.contains(.openQueues) { openQueues() }
    if !actions.isDisjoint(with: [.tellOfPeerEnd, .report]) { owner?.peerHasFinished() }
    if actions.contains(.tellOfPeerEnd) { waiters?.peerFinished.resumeAll(.success(())) }
    if actions.contains(.refuseWrites) {
      writes.queue.refuse(lifecycle.writeError.during("write"), unsentCiphertext: unsentCiphertext)
    }
    if actions.contains(.report) { tellOfReport() }
    if actions.contains(.failFlushes) { failFlushes(lifecycle.writeError) }
    if actions.contains(.endReads) { reads.queue.end(.endOfStream) }
    if actions.contains(.refuseReads) { reads.queue.refuse(endError.during("read")) }
    if actions.contains(.pump) {
      pumpReads()
      pumpWrites()
    }
    if actions.contains(.recheckQueues), !reads.isPumping { recheckQueues() }
    if actions.contains(.linger) { linger() }
    if actions.contains(.release) { release() }
    if actions.contains(.notifyReleased) { notifyReleased() }
    if actions.contains(.expireNow) { transport.encryption?.expireNow() }
    if let layer { layer.carrierEnded(endError, lifecycle.endReason) }
  }

  private func carryOutTimed(_ actions: StreamLifecycle.Actions) {
    if actions.contains(.disarmDeadline), let deadline = deadline.take() { registration.disarm(deadline) }
    if actions.contains(.armCloseDeadline) { arm(.close) }
    if actions.contains(.shortenCloseDeadline), options.closeTimeout > Self.failureTimeout {
      options.closeTimeout = Self.failureTimeout
      arm(.close)
    }
    if actions.contains(.armTailDeadline) { arm(.tail) }
    if actions.contains(.resetWhenDropped) { registration.resetsWhenDropped = true }
    if actions.contains(.closeWhenDropped) { registration.resetsWhenDropped = false }
  }

  private func arm(_ kind: DeadlineKind) {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    deadline = registration.arm(
      at: instant(registration.reactor.now, plus: options.closeTimeout.clampedNanoseconds), tag: DeadlineTag(kind))
  }

  /// The time that the peer has to take the last bytes of a layer that failed.
  private static var failureTimeout: Duration { .seconds(2) }

  private func openQueues() {
    reads.queue.open()
    drainFromTheStart()
    writes.queue.open()
    waiters?.open.resumeAll(.success(()))
    forgetDispensableWaiters()
    pumpWrites()
    pumpReads()
  }

  private func tellOfReport() {
    guard let report = lifecycle.report else { return }
    waiters?.closed.resumeAll(.success(report))
    let opening = transport.openingOperation
    waiters?.open.resumeAll(.failure(endError.during(opening).thrown))
    waiters?.peerFinished.resumeAll(.failure(endError.during("peerFinishedWriting").thrown))
    waiters?.draining.resumeAll(.failure(endError.during("waitUntilDraining").thrown))
    observation?.ended(lifecycle.isUp ? .success(report) : .failure(endError.during(opening)))
  }

  private func linger() {
    let owner = self.owner
    if transport.close({ owner?.submit { $0.core.transportIsGone() } }) { return transportIsGone() }
    waiters?.lingers.take()?()
  }

  /// Calls `tell` when the transport begins to wait for the peer to finish: now, if it does so already, or never, if the stream is
  /// released at once.
  func whenLingering(_ tell: @escaping () -> Void) {
    if isReleased { return }
    if lifecycle.phase == .lingering { return tell() }
    madeWaiters.lingers = tell
  }

  /// The call that waits for the close has ended.
  func doesNotTellOfLinger() { waiters?.lingers = nil }

  private func release() {
    transport.discard()
    if isReleased { notifyReleased() }
    keepAlive = nil
  }

  private func notifyReleased() {
    waiters?.released.resumeAll(.success(()))
    waiters?.layer.take()?()
  }
}
