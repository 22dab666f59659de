internal import EpollReactor

// What the drain of a listener does to one of its streams. A stream from which no byte has arrived is not idle yet: its peer may have
// been told that it is connected just before, and may send its first request. So it gets a grace.
//
//    notDraining ──drain begins, or the stream goes up in a drain──▶ running ──a byte arrives, or the time is over──▶ over
//         │                                                                                                        ▲
//         └──────────────────────────────drain begins, and a byte had arrived──────────────────────────────────────┘
//
// - `running`: no read ends because it is idle. A handshake, or the wait for a PROXY header, goes on.
// - `over`: idle reads end, as the drain says. A stream that is not up is aborted, because it serves nothing.

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

  /// The stream goes up. If its listener drains, it is served its first message.
  func drainFromTheStart() {
    if options.grace == .notDraining { return }
    // A layer begins with the grace of the stream beneath, unless bytes arrived there before.
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
