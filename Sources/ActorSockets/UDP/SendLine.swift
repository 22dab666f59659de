internal import EpollReactor
internal import SocketSystem

/// The datagrams that wait for room at one destination, in order.
struct SendLine {
  /// The numbers increase from one datagram to the next.
  struct Waiting: Identified {
    let id: UInt64
    /// The entry of the call that waits for it, and its index there; `nil` if no call waits for it.
    let call: (entry: UInt64, index: Int)?
    let datagram: Datagram
    /// When it is too late to send it, if no call waits for it.
    let expiry: Int64

    var charge: Int { SendLine.charge(datagram) }
  }

  /// A line that was created later has a larger number.
  let number: UInt64
  var waiting = FIFO<Waiting>()
  /// The sum of the charges of the replies that wait here without a call, in bytes.
  var replyCharge = 0
  /// When to try again; `nil` if it is to be tried now.
  private(set) var retryTime: Int64?
  private(set) var isAnnounced = false
  private var pause: RetryPause

  static func charge(_ datagram: Datagram) -> Int { max(datagram.bytes.count, SubmissionLimit.leastCharge) }

  init(number: UInt64, isAnnounced: Bool) {
    self.number = number
    pause = RetryPause(isAnnounced: isAnnounced)
  }

  var isReady: Bool { retryTime == nil }
  var bytes: Int { waiting.all.reduce(0) { $0 + $1.datagram.bytes.count } }

  mutating func becomeFull(at now: Int64, isAnnounced: Bool) {
    self.isAnnounced = isAnnounced
    retryTime = pause.begin(at: now)
  }

  mutating func becomeReady() { retryTime = nil }

  mutating func succeeded() { pause.reset() }
}

/// The keys are those of `SendQueue.line(of:)`.
struct SendLines {
  private var lines: [SocketAddress?: SendLine] = [:]
  /// The destinations whose lines are ready, in order. A line that is no longer ready stays here until its turn.
  private var ready = FIFO<SocketAddress?>()
  private var nextNumber: UInt64 = 0
  /// The first time at which a line is to be tried again; it may be too early. `nil` if no line is full.
  private(set) var nextRetry: Int64?
  /// Whether a line may wait for an event.
  private var hasAnnounced = false

  var isEmpty: Bool { lines.isEmpty }
  var bytes: Int { lines.values.reduce(0) { $0 + $1.bytes } }

  subscript(destination: SocketAddress?) -> SendLine? {
    get { lines[destination] }
    _modify { yield &lines[destination] }
  }

  /// The first destination whose line is ready and has datagrams. Removes the lines before it that are ready and empty.
  mutating func firstReady() -> SocketAddress?? {
    while let destination = ready.first {
      if let line = lines[destination], line.isReady {
        if !line.waiting.isEmpty { return destination }
        lines[destination] = nil
      }
      _ = ready.popFirst()
    }
    return nil
  }

  /// Creates the destination's line, unless it already has one.
  mutating func full(_ destination: SocketAddress?, at now: Int64, isAnnounced: Bool) {
    if lines[destination] == nil {
      nextNumber += 1
      lines[destination] = SendLine(number: nextNumber, isAnnounced: isAnnounced)
    }
    lines[destination]?.becomeFull(at: now, isAnnounced: isAnnounced)
    if isAnnounced { hasAnnounced = true }
    nextRetry = min(nextRetry ?? .max, lines[destination]?.retryTime ?? .max)
  }

  mutating func retry(at now: Int64) {
    if let nextRetry, nextRetry <= now { makeReady { $0.retryTime.map { $0 <= now } ?? false } }
  }

  mutating func roomMayBe() {
    if !hasAnnounced { return }
    hasAnnounced = false
    makeReady { $0.isAnnounced }
  }

  private mutating func makeReady(_ isDue: (SendLine) -> Bool) {
    let due = lines.filter { !$0.value.isReady && isDue($0.value) }
    // Always in the same order: a simulation must do the same things in each run.
    for (destination, _) in due.sorted(by: { $0.value.number < $1.value.number }) { makeReady(destination) }
    nextRetry = lines.values.compactMap(\.retryTime).min()
  }

  mutating func makeReady(_ destination: SocketAddress?) {
    guard lines[destination]?.isReady == false else { return }
    lines[destination]?.becomeReady()
    ready.append(destination)
  }
}
