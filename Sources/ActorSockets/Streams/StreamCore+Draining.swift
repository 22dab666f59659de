internal import EpollReactor

// What the drain of a listener does to one of its streams. If no byte has arrived from a peer, it may have connected just before the drain
// began, and may be about to send its first request. So the stream does not count as idle for a while: the grace.
//
//              drain begins before the first byte, or the stream opens in a drain
//    notDraining ────────────────────────────────────────────────────▶ running ──the time is over──▶ over
//         │                                                                                           ▲
//         └──────────────────────── drain begins after the first byte ────────────────────────────────┘
//
// - `running`: as long as no byte has arrived, no read ends because it is idle. A handshake, or the wait for a PROXY header, goes on.
// - `over`: idle reads end, as the drain says. A stream that is not open is aborted, because it serves nothing.

/// The grace of a stream in a drain.
enum DrainGrace {
  case notDraining
  case running
  case over
}

extension StreamCore {
  /// The listener that serves this stream drains.
  ///
  /// - Parameters:
  ///   - idleReads: Which idle reads end, now and from now on.
  ///   - grace: How long the peer has for its first byte, in milliseconds.
  package func beginDraining(_ idleReads: TCPListener.Drain.IdleReads, grace: UInt32) {
    waiters?.draining.resumeAll(.success(()))
    options.idleReads = max(options.idleReads, idleReads)
    let layer = upgrade?.layer
    if options.grace == .notDraining {
      options.graceMilliseconds = grace
      options.grace = .over
      if layer == nil, bytesReceived == 0 { startGrace() }
    }
    if let layer { layer.beginDraining(options.idleReads, grace: grace) }
    if carriedLayer != nil || options.idleReads == .wait || state == .connecting { return }
    reads.queue.drain(all: options.idleReads == .endAll)
    // Bytes may be in the kernel although epoll has not reported them yet. The first read is not idle then.
    transport.tryAnyway()
    pumpReads()
  }

  /// The stream opens. If its listener drains, it is served its first message.
  func drainFromTheStart() {
    if options.grace == .notDraining { return }
    // While the grace of the stream beneath runs, it is the layer's, too. If it is over, the layer has one of its own.
    if options.grace == .over { startGrace() }
    if options.idleReads != .wait { reads.queue.drain(all: options.idleReads == .endAll) }
  }

  private func startGrace() {
    options.grace = .running
    if options.graceMilliseconds == 0 { return graceIsOver() }
    let end = instant(registration.reactor.now, plus: Int64(options.graceMilliseconds) * 1_000_000)
    // If the stream has left its reactor by then, nothing happens.
    _ = registration.arm(at: end, tag: StreamDeadline.grace.rawValue)
  }

  /// The time of the grace is over.
  package func graceIsOver() {
    if options.grace != .running { return }
    options.grace = .over
    if let layer = upgrade?.layer { return layer.graceIsOver() }
    if state == .connecting {
      let error = SocketError(
        .timedOut, operation: transport.openingOperation, detail: "the server stops, and nothing was served yet")
      terminate(error, .timedOut)
    } else {
      pumpReads()
    }
  }

  /// Whether the first read is not idle although no byte has arrived for it.
  var awaitsFirstByte: Bool { bytesReceived == 0 && options.grace == .running }
}
