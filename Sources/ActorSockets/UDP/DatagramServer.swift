// The state and the decisions of `UDPEndpoint.serve`: a pure state machine. `UDPEndpoint+Serve` acts on it, and `ServePhase` says how it
// stops.
//
// A datagram:
//
//    received ──▶ waiting ──(a handler is free)──▶ handled ──(handlerEnded)──▶ finished, failed, failed by its peer
//                    │                                │
//                    │ the queue is full,             └──(the drain is over)──▶ aborted
//                    │ or the drain is over
//                    ▼
//                unserved
//
// Invariants:
// - Each received datagram is counted once in the report at the end: received = finished + failed + failedByPeer + aborted + unserved.
// - Handlers are started in the order in which the datagrams were received, and at most as many run as the limit says.
// - Datagrams wait only while all handlers are busy, and then they have at most as many bytes as the limit of the queue says. With the
//   policy to wait, no datagram is received while all handlers are busy.
// - During a drain no datagram is waited for. Those in the kernel's buffers are received until the buffers were empty once, or until as
//   many bytes were received as they hold: a flood must not keep the server from stopping. Buffers of unix sockets have no limit in bytes.

internal import EpollReactor

struct DatagramServer {
  /// The backlog is the most bytes that are still to be received of what waited when the drain began.
  private var phase = ServePhase<Int>()
  private(set) var report = UDPEndpoint.ServeReport()
  private var limit = 1
  private var overflow = UDPEndpoint.Overflow.wait
  private var queueBudget = 0
  private var waiting = FIFO<Datagram>()
  private var waitingBytes = 0
  private(set) var handlers = 0

  /// What each datagram counts in addition to its bytes: about the memory that it uses.
  static let overhead = 256

  // MARK: Beginning and ending

  var isServing: Bool { phase.isServing }
  var isDrainedEarly: Bool { phase.isDrainedEarly }
  var isDraining: Bool { phase.isDraining }
  /// See `ServePhase.isNoticed`.
  var isNoticed: Bool { phase.isNoticed }
  var waitingCount: Int { waiting.count }

  mutating func started(_ options: UDPEndpoint.ServeOptions) {
    self = DatagramServer()
    phase.started()
    limit = options.handlers
    overflow = options.overflow
    queueBudget = options.queueBudget
  }

  /// `bytes` is the size of the kernel's buffers. See `ServePhase.drained`.
  mutating func drained(_ drain: Drain, at now: Int64, buffered bytes: () -> Int) -> Int64? {
    phase.drained(drain, at: now, waiting: bytes)
  }

  /// See `ServePhase.noticeIsOver`.
  mutating func noticeIsOver(at now: Int64, buffered bytes: () -> Int) -> Int64? {
    phase.noticeIsOver(at: now, waiting: bytes)
  }

  mutating func drainIsOver() { phase.drainIsOver() }

  var isOver: Bool { phase.isOver }

  /// The kernel has given these datagrams, also those that a filter dropped.
  mutating func fetched(_ count: Int, bytes: Int) {
    phase.changeBacklog { $0 = max(0, $0 - bytes - count * Self.overhead) }
  }

  /// A receive during the drain found no datagram, or the endpoint is closed.
  mutating func nothingIsLeft() { phase.changeBacklog { $0 = 0 } }

  /// The handlers that still run are counted as aborted, and the datagrams that still wait as unserved.
  mutating func abortRemaining() {
    report.aborted += handlers
    handlers = 0
    report.unserved += waiting.count
    (waiting, waitingBytes) = (FIFO(), 0)
  }

  mutating func ended() {
    assert(handlers == 0 && waiting.isEmpty, "a server ended with datagrams that are not counted")
    phase.ended()
  }

  // MARK: What to do next

  enum Step {
    /// Call `nextToHandle`.
    case handle
    /// Receive at most this many datagrams, and report each with `received`.
    case receive(upTo: Int)
    /// Receive at most this many of the datagrams that have arrived, and report each, or report
    /// `nothingIsLeft`.
    case receiveArrived(upTo: Int)
    case wait
    case stop
  }

  func step() -> Step {
    if phase.isOver { return .stop }
    if handlers < limit, !waiting.isEmpty { return .handle }
    let room = overflow == .wait ? limit - handlers : UDPEndpoint.fetchSize
    guard let bytes = phase.backlog else { return room > 0 ? .receive(upTo: room) : .wait }
    if bytes > 0 { return room > 0 ? .receiveArrived(upTo: room) : .wait }
    return waiting.isEmpty ? .stop : .wait
  }

  /// After `step` was `stop`: whether the loop still has to wait for handlers.
  var hasHandlers: Bool { !phase.isOver && handlers > 0 }

  // MARK: Datagrams

  /// If a handler is free, `nextToHandle` must be called next.
  mutating func received(_ datagram: Datagram) {
    let cost = datagram.bytes.count + Self.overhead
    report.received += 1
    if overflow == .dropNewest, handlers == limit, waitingBytes + cost > queueBudget {
      report.unserved += 1
      return
    }
    waiting.append(datagram)
    waitingBytes += cost
    if overflow == .dropOldest, handlers == limit {
      while waitingBytes > queueBudget, takeWaiting() != nil { report.unserved += 1 }
    }
  }

  /// The datagram whose handler begins now; `nil` if no handler is free, or if no datagram waits.
  mutating func nextToHandle() -> Datagram? {
    guard handlers < limit, !phase.isOver, let datagram = takeWaiting() else { return nil }
    handlers += 1
    return datagram
  }

  private mutating func takeWaiting() -> Datagram? {
    guard let datagram = waiting.popFirst() else { return nil }
    waitingBytes -= datagram.bytes.count + Self.overhead
    return datagram
  }

  /// Returns whether the datagram is counted now. One whose handler was aborted was already counted.
  mutating func handlerEnded(_ end: HandlerEnd) -> Bool {
    if handlers == 0 { return false }
    handlers -= 1
    switch end {
    case .finished: report.finished += 1
    case .failed: report.failed += 1
    case .failedByPeer: report.failedByPeer += 1
    }
    return true
  }
}
