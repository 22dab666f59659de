// How a stream begins and ends, as a pure state machine. Events come in, actions come out. It never calls the kernel, reads a clock
// or suspends. `StreamCore` carries the actions out.
//
//                     close(after:)                                              (phases from left to right)
//        ┌──────────────────────────────────┐
//        │                                  ▼   all done                  all sent              transport gone
//   connecting ───up───▶ open ──────────▶ finishing ─────────▶ flushing ──────────▶ lingering ────────────────▶ released
//        │                 │ close(after:)      │ close()         ▲ │                    │                       ▲
//        │                 ├── close() ─────────┴─────────────────┤ │                    │                       │
//        │                 ├── read to the peer's end ────────────┤ │                    │                       │
//        │                 └── idle, nothing to send (*) ─────────┘ │                    │                       │
//        └── abort(), deadline, shutdown; close() of a stream that is broken or not up; idle with bytes to send ─┘
//                                                                                     (from every phase)
//
// (*) also from `finishing`. And a stream that is broken or not up when its last operation is done goes to `released` at once.
//
// - `connecting`: operations queue.
// - `open`: operations are carried out.
// - `finishing`: no operation is admitted; the ones that `close(after:)` waits for are carried out first.
// - `flushing`: reads fail, or find the peer's end if that is why the stream closes; writes are sent until the close deadline.
// - `lingering`: the transport makes sure that closing does not destroy what was sent.
// - `released`: every operation has its outcome, and the transport has been told to let go.
//
// A connection that breaks keeps its phase, because bytes that arrived before can still be read. Its report exists from then on,
// unless the peer's end was found before: then the stream closes as usual, and the report says what was lost.
//
// Invariants:
// - Phases only move to the right.
// - The report is made once, by the first event that ends the stream. A released stream has one.
// - Handles are released as often as they were created.
// - A deadline is armed only for the abandoned tail of an open stream, or for closing. So one at a time is enough.

import SocketSystem

struct StreamTraffic {
  var received = 0
  /// The bytes that the transport took.
  var sent = 0
  /// The bytes written that the transport did not take, or took and did not send.
  var unsent = 0
}

struct StreamLifecycle {
  enum Phase: Equatable {
    case connecting
    case open
    case finishing(CloseCondition)
    case flushing
    case lingering
    case released

    /// From left to right in the diagram.
    var rank: Int {
      switch self {
      case .connecting: 0
      case .open: 1
      case .finishing: 2
      case .flushing: 3
      case .lingering: 4
      case .released: 5
      }
    }
  }

  enum Cause {
    case none
    case broken(SocketError)
    /// The stream was ended: it could not connect, timed out, was aborted or shut down.
    case ended(SocketError, CloseReport.Reason)
  }

  /// The rest of writes that their callers abandoned. It is still sent. But if nothing else uses the connection, a peer that takes no
  /// byte of the tail must not keep the connection.
  enum Tail {
    case none
    /// It keeps the connection until the deadline.
    case timed
    /// It does not keep the connection any more.
    case released
  }

  /// A value that few streams have. It is in memory of its own, so that the streams without it take less.
  private indirect enum Boxed<Value> {
    case none
    case some(Value)

    var value: Value? { if case .some(let value) = self { value } else { nil } }
  }

  private(set) var phase = Phase.connecting
  /// Whether the stream has been up.
  private(set) var isUp = false
  private(set) var peerHasFinished = false
  /// The stream closes because everything was read to the peer's end: reads go on finding that end.
  private(set) var readsFindEnd = false
  /// A layer above has failed and left this stream to close by itself. The layer's last bytes may tell the peer why.
  private(set) var layerHasFailed = false
  private var isTimedOut = false
  private(set) var tail = Tail.none
  /// The `enqueue…` handles whose operations have no outcome yet.
  private(set) var handles = 0
  private(set) var cause = Cause.none
  private var ending = Boxed<CloseReport>.none
  private var loss = Boxed<(error: SocketError, unsent: Int)>.none

  /// Whether reads that wait may still get bytes.
  var mayFinishReads: Bool {
    switch phase {
    case .connecting, .open, .finishing: true
    case .flushing, .lingering, .released: false
    }
  }

  var report: CloseReport? { ending.value }
  /// The error that broke the connection after the peer's end, and the number of bytes that were not sent then.
  var lost: (error: SocketError, unsent: Int)? { loss.value }

  // MARK: Events

  mutating func wentUp() -> Actions {
    if isUp || report != nil { return [] }
    isUp = true
    var actions: Actions = [.announce, .startIdleWatch, .openQueues]
    switch phase {
    case .connecting: enter(.open)
    case .finishing(.pendingWrites): actions.insert(.armCloseDeadline)
    default: break
    }
    return actions
  }

  mutating func peerFinished() -> Actions {
    // A reset announces the end of everything, which is not the same.
    if peerHasFinished || isBroken { return [] }
    peerHasFinished = true
    return [.tellOfPeerEnd, .recheckQueues]
  }

  /// `endWasFound`: the peer had said before that it sends no more. Then only writes fail, and reads find the end.
  mutating func broke(_ error: SocketError, endWasFound: Bool, _ traffic: StreamTraffic) -> Actions {
    // What the peer does after the end does not change the errors that calls throw.
    if isBroken || isReleased { return [] }
    if endWasFound {
      if lost == nil { loss = .some((error, traffic.unsent)) }
      return [.refuseWrites, .failFlushes, .pump]
    }
    if case .none = cause { cause = .broken(error) }
    return [.refuseWrites, .failFlushes, conclude(CloseReport.Reason(error), traffic)]
  }

  func brokenAndRead() -> Actions { [.stopIdleWatch, .reset] }

  mutating func closeRequested(_ traffic: StreamTraffic) -> Actions {
    switch phase {
    case .flushing, .lingering, .released: return []
    case .connecting, .open, .finishing: break
    }
    if !isUp || isBroken {
      return end(SocketError(.closed, operation: ""), isTimedOut ? .timedOut : nil, givingUp: !isUp, traffic)
    }
    let actions = leaveOpen(for: .flushing)
    return actions.union([.armCloseDeadline, .pump]).union(readsFindEnd ? [] : .refuseReads)
  }

  /// The user closes: from now on reads fail, also those of a stream that closes because everything was read.
  mutating func userCloses() -> Actions {
    if !readsFindEnd { return [] }
    readsFindEnd = false
    return [.refuseReads, .pump]
  }

  mutating func closeRequested(after condition: CloseCondition) -> Actions {
    guard admits else { return [] }
    var actions = leaveOpen(for: .finishing(condition)).union(.recheckQueues)
    if condition == .pendingWrites, isUp, report == nil { actions.insert(.armCloseDeadline) }
    return actions
  }

  /// An operation timed out, and the configuration says to close the connection then: `closeRequested` follows.
  mutating func operationTimedOut() {
    if admits { isTimedOut = true }
  }

  /// Everything was read to the peer's end, and the configuration says to close the connection then.
  mutating func readToEnd(_ traffic: StreamTraffic) -> Actions {
    guard admits, peerHasFinished else { return [] }
    readsFindEnd = true
    return closeRequested(traffic).union(.endReads)
  }

  /// A queue may be empty now. A flag is true if no such operation waits. Do not call this while a pump runs: closing now would cancel
  /// the turn that the pump may still need.
  mutating func drained(reads: Bool, writes: Bool, flushes: Bool, _ traffic: StreamTraffic) -> Actions {
    switch phase {
    case .finishing(let condition):
      let readsAreDone = reads || condition == .pendingWrites
      let writesAreDone = writes && flushes || condition == .pendingReads
      return readsAreDone && writesAreDone ? closeRequested(traffic) : []
    case .flushing:
      if !writes { return [] }
      enter(.lingering)
      return [.stopIdleWatch, .failFlushes, .disarmDeadline, .linger]
    case .connecting, .open, .lingering, .released:
      return []
    }
  }

  mutating func transportGone(_ traffic: StreamTraffic) -> Actions {
    switch phase {
    case .lingering:
      enter(.released)
      let failure = lost.flatMap { $0.unsent > 0 ? CloseReport.Reason($0.error) : nil }
      let reason = isTimedOut ? .timedOut : failure ?? (peerHasFinished ? .remote : .local)
      return [conclude(reason, traffic), .disarmDeadline, .release]
    case .released:
      assert(report != nil, "a released stream has a report")
      return .notifyReleased
    case .connecting, .open, .finishing, .flushing: return []
    }
  }

  /// `writes`: no write waits. Then the peer, which may only have been quiet, finds the end of the stream.
  mutating func idle(_ error: SocketError, writes: Bool, _ traffic: StreamTraffic) -> Actions {
    switch phase {
    case .lingering, .released: return []
    case .connecting, .open, .finishing:
      if !writes { break }
      cause = .ended(error, .timedOut)
      return leaveOpen(for: .flushing).union([
        conclude(.timedOut, traffic), .refuseReads, .refuseWrites, .pump,
      ])
    case .flushing: break
    }
    return end(error, .timedOut, traffic)
  }

  /// A layer that has failed may have sent the peer a fatal alert, which a reset could overtake. So the stream then closes as with
  /// `close()`, but the peer has little time to take the bytes that are left.
  mutating func abortRequested(_ traffic: StreamTraffic) -> Actions {
    guard layerHasFailed, isClosing else {
      return end(SocketError(.closed, operation: ""), nil, traffic).union(.expireNow)
    }
    return phase == .flushing ? .shortenCloseDeadline : []
  }

  mutating func layerLetGo(hasFailed: Bool) { layerHasFailed = hasFailed }

  /// See `StreamCore.terminate`.
  mutating func end(
    _ error: SocketError, _ reason: CloseReport.Reason?, givingUp: Bool = false, _ traffic: StreamTraffic
  ) -> Actions {
    if phase == .released { return [] }
    if case .ended = cause {} else { cause = .ended(error, reason ?? .local) }
    return leaveOpen(for: .released).union([
      .stopIdleWatch, .disarmDeadline, givingUp ? .giveUp : .reset, .refuseWrites, conclude(reason ?? .local, traffic),
      .failFlushes, .refuseReads, .pump, .release,
    ])
  }

  // MARK: Handles

  mutating func handleCreated() { handles += 1 }

  mutating func handleReleased() {
    assert(handles > 0, "a handle was released that was not created")
    handles -= 1
  }

  // MARK: The abandoned tail

  /// `isAlone`: bytes are queued that their callers abandoned, and nothing else.
  mutating func tailRemains(isAlone: Bool) -> Actions {
    guard isAlone, handles == 0, phase == .open, report == nil else { return tailMoved() }
    guard case .none = tail else { return [] }
    tail = .timed
    return .armTailDeadline
  }

  /// Bytes moved, or a call waits again.
  mutating func tailMoved() -> Actions {
    defer { tail = .none }
    return switch tail {
    case .none: []
    case .timed: .disarmDeadline
    case .released: .closeWhenDropped
    }
  }

  /// The peer took no byte of the tail until the deadline. The user's references keep the connection, but the tail does not.
  mutating func tailDeadlineReached() -> Actions {
    guard case .timed = tail else { return [] }
    tail = .released
    return [.resetWhenDropped, .recheckQueues]
  }

  // MARK: Steps

  private mutating func leaveOpen(for phase: Phase) -> Actions {
    let actions = tailMoved()
    enter(phase)
    return actions
  }

  private mutating func enter(_ phase: Phase) {
    assert(phase.rank > self.phase.rank, "phases only move to the right")
    assert(tail != .timed || self.phase == .open, "only an open stream has a tail with a deadline")
    self.phase = phase
  }

  private mutating func conclude(_ reason: CloseReport.Reason, _ traffic: StreamTraffic) -> Actions {
    if report != nil { return [] }
    ending = .some(makeReport(reason, traffic))
    return .report
  }

  func makeReport(_ reason: CloseReport.Reason, _ traffic: StreamTraffic) -> CloseReport {
    CloseReport(
      reason: reason, bytesReceived: traffic.received, bytesSent: traffic.sent,
      bytesUnsent: lost?.unsent ?? traffic.unsent)
  }
}

extension CloseReport.Reason {
  package init(_ error: SocketError) {
    self =
      switch error.code {
      case .connectionReset: .reset
      case .timedOut: .timedOut
      case .peerTooSlow: .peerTooSlow
      default: .error(error)
      }
  }
}
