internal import EpollReactor

// What the drain of a listener does to one of its streams. If no byte has arrived from a peer, it may have connected just before the drain
// began, and may be about to send its first request. So the stream does not count as idle for a while: the grace. The peer of a stream
// that was used before may also be about to send a request; the drain says whether it has a grace, too.
//
//                drain begins, there is a grace
//    notDraining ──────────────────────────────────────▶ running
//         │                                               │   ▲
//         │      the time is over, or a layer begins here │   │ the stream is a layer,
//         │                          after the first byte │   │ and begins
//         │                                               ▼   │
//         └─────────────────────────────────────────────▶ over
//                drain begins, there is no grace
//
// - `running`: as long as no byte has arrived since it began, no read ends because it is idle. A handshake, or the wait for a PROXY
//   header, goes on.
// - `over`: idle reads end, as the drain says. A stream that is not open is aborted, because it serves nothing.
//
// A layer that waits for earlier operations of the stream beneath shares the grace of that stream. If no byte has arrived there when the
// layer begins, and the time is not over, it goes on sharing it. Otherwise it has a grace of its own from then on, as after STARTTLS.

enum DrainGrace {
  case notDraining
  case running
  case over
}

extension StreamCore {
  /// The notice of a drain has begun: the server goes on as before, but is about to stop.
  package func drainIsNoticed() {
    waiters?.draining.resumeAll(.success(()))
    upgrade?.layer.drainIsNoticed()
  }

  /// `isShared`: the stream is a layer that waits to begin, and the stream beneath ends its grace.
  package func beginDraining(_ idleReads: Drain.IdleReads, grace: Drain.Grace, isShared: Bool = false) {
    waiters?.draining.resumeAll(.success(()))
    // Nothing is read any more. The registration may already belong to what closes the descriptor.
    if lifecycle.phase.rank >= StreamLifecycle.Phase.lingering.rank { return }
    options.idleReads = max(options.idleReads, idleReads)
    let isFirst = options.grace == .notDraining
    if isFirst {
      options.graceTimes = grace
      options.grace = isShared ? .running : .over
    }
    if let upgrade { upgrade.layer.beginDraining(options.idleReads, grace: grace, isShared: !upgrade.isCarrying) }
    if isFirst, !isShared, carriedLayer == nil, bytesReceived == 0 || grace.used > 0 { startGrace() }
    if carriedLayer != nil || options.idleReads == .wait || state == .connecting { return }
    reads.queue.drain(all: options.idleReads == .endAll)
    // Bytes may be in the kernel although epoll has not reported them yet. The first read is not idle then.
    transport.forceAttempt()
    pumpReads()
  }

  /// The stream opens. If its listener drains, it is served its first message.
  func drainFromTheStart() {
    if options.idleReads != .wait { reads.queue.drain(all: options.idleReads == .endAll) }
  }

  /// A layer begins on this stream. If bytes have arrived here, or the time is over, the layer has a grace of its own.
  func passGrace(to layer: any StreamLayer) {
    if options.grace == .notDraining || awaitsFirstByte && bytesReceived == 0 { return }
    options.grace = .over
    layer.startGrace()
  }

  package func startGrace() {
    options.grace = .running
    options.bytesBeforeGrace = bytesReceived
    let milliseconds = bytesReceived == 0 ? options.graceTimes.new : options.graceTimes.used
    if milliseconds == 0 { return graceIsOver() }
    let end = instant(registration.reactor.now, plus: Int64(milliseconds) * 1_000_000)
    // If the stream has left its reactor by then, nothing happens.
    _ = registration.arm(at: end, tag: DeadlineTag(.grace))
  }

  package func graceIsOver() {
    if options.grace != .running { return }
    options.grace = .over
    // If bytes have arrived for operations that the layer waits for, this stream serves something, and the layer begins later.
    if let upgrade, upgrade.isCarrying || bytesReceived == 0 { return upgrade.layer.graceIsOver() }
    if state == .connecting {
      let error = SocketError(
        .timedOut, operation: transport.openingOperation, detail: "the server stops, and nothing was served yet")
      terminate(error, .timedOut)
    } else {
      pumpReads()
    }
  }

  /// Whether the first read is not idle although no byte has arrived for it.
  var awaitsFirstByte: Bool { options.grace == .running && bytesReceived == options.bytesBeforeGrace }
}
