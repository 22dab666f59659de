// The phases of a server, whatever it serves: a pure state machine.
//
//            started              drained, with a notice
//    idle ────────────▶ serving ───────────────────────────▶ noticed
//     │ ▲                  │                                    │ the notice is over, nothing more can arrive,
//     │ │                  │ drained                            │ or drained without a notice
//     │ │                  ▼                                    │
//     │ │               draining ◀──────────────────────────────┘
//     │ │ ended            │ the time is over
//     │ │ (from all four)  ▼
//     │ └───────────────  over ◀── from `serving` and `noticed`, too: drained without time, or the reactor shuts down
//     │ drained
//     ▼
//    drained early: the next `serve` returns at once
//
// Invariants:
// - Each drain that is requested has an end: its notice and then its time after the request. If several are requested, before, during or
//   after a notice, the earliest end applies, and of their `IdleReads` the one that ends most reads. So no later request puts the end
//   off, and none takes back what an earlier one ends. (The graces are always those of the server's options.)
// - The notice is over at the earliest end of a notice; a drain without one ends it at once. During a notice the server serves as before,
//   and no idle read ends.
// - If nothing more can arrive during a notice, it is over at once, because nothing is left to wait for. The handlers then have the
//   shortest time that was requested, and never longer than without that event.
// - The backlog is what waited when the drain began. It only shrinks.

internal import EpollReactor

/// `Backlog` says how much of what waited when a drain began is still to be taken.
struct ServePhase<Backlog: Sendable>: Sendable {
  private enum Phase: Sendable {
    case idle
    case drainedEarly
    case serving
    case noticed(Notice)
    case draining(Draining)
    /// The drain is over, which ended these idle reads.
    case over(Drain.IdleReads)
  }

  /// What the requested drains result in.
  private struct Notice {
    var idleReads: Drain.IdleReads
    /// The shortest time for the handlers.
    var time: Int64
    /// When the drain begins.
    var noticeEnd: Int64
    /// When the drain is over. Not `noticeEnd` and `time`, because another drain may have the earliest end.
    var end: Int64

    init(_ drain: Drain, at now: Int64) {
      idleReads = drain.idleReads
      time = drain.nanoseconds
      noticeEnd = instant(now, plus: drain.notice)
      end = instant(noticeEnd, plus: drain.nanoseconds)
    }

    mutating func add(_ other: Notice) {
      idleReads = max(idleReads, other.idleReads)
      time = min(time, other.time)
      noticeEnd = min(noticeEnd, other.noticeEnd)
      end = min(end, other.end)
    }
  }

  private struct Draining {
    var idleReads: Drain.IdleReads
    var end: Int64
    var backlog: Backlog
  }

  private var phase = Phase.idle

  var isServing: Bool {
    switch phase {
    case .idle, .drainedEarly: false
    case .serving, .noticed, .draining, .over: true
    }
  }

  /// Whether a notice is under way: the drain begins when it is over.
  var isNoticed: Bool {
    if case .noticed = phase { true } else { false }
  }

  var isDrainedEarly: Bool {
    if case .drainedEarly = phase { true } else { false }
  }

  /// Whether the drain has begun. It has not during a notice.
  var isDraining: Bool {
    switch phase {
    case .idle, .drainedEarly, .serving, .noticed: false
    case .draining, .over: true
    }
  }

  var isOver: Bool {
    if case .over = phase { true } else { false }
  }

  /// `nil` unless a drain is under way.
  var backlog: Backlog? {
    if case .draining(let draining) = phase { draining.backlog } else { nil }
  }

  /// Which idle reads end; `nil` if the server does not drain.
  var idleReads: Drain.IdleReads? {
    switch phase {
    case .idle, .drainedEarly, .serving, .noticed: nil
    case .draining(let draining): draining.idleReads
    case .over(let idleReads): idleReads
    }
  }

  mutating func started() {
    assert(!isServing, "a server is started once at a time")
    phase = .serving
  }

  /// `waiting` is called when the drain begins. Returns when the notice or the drain is over; `nil` if the drain is over now, or if the
  /// server was not started.
  mutating func drained(_ drain: Drain, at now: Int64, waiting: () -> Backlog) -> Int64? {
    var notice = Notice(drain, at: now)
    switch phase {
    case .idle: phase = .drainedEarly
    case .drainedEarly, .over: break
    case .serving: return enter(notice, at: now, waiting)
    case .noticed(let earlier):
      notice.add(earlier)
      return enter(notice, at: now, waiting)
    case .draining(var draining):
      draining.idleReads = max(draining.idleReads, drain.idleReads)
      draining.end = min(draining.end, notice.end)
      return enter(draining, at: now)
    }
    return nil
  }

  /// The time of the notice is over, or nothing more can arrive: the drain begins. Has no effect unless a notice is under way. Returns as
  /// `drained`.
  mutating func noticeIsOver(at now: Int64, waiting: () -> Backlog) -> Int64? {
    guard case .noticed(var notice) = phase else { return nil }
    if notice.noticeEnd > now {
      notice.noticeEnd = now
      notice.end = min(notice.end, instant(now, plus: notice.time))
    }
    return enter(notice, at: now, waiting)
  }

  private mutating func enter(_ notice: Notice, at now: Int64, _ waiting: () -> Backlog) -> Int64? {
    if notice.noticeEnd > now {
      phase = .noticed(notice)
      return notice.noticeEnd
    }
    if notice.end > now {
      return enter(Draining(idleReads: notice.idleReads, end: notice.end, backlog: waiting()), at: now)
    }
    phase = .over(notice.idleReads)
    return nil
  }

  private mutating func enter(_ draining: Draining, at now: Int64) -> Int64? {
    phase = draining.end > now ? .draining(draining) : .over(draining.idleReads)
    return draining.end > now ? draining.end : nil
  }

  /// Also if the drain has not begun.
  mutating func drainIsOver() {
    switch phase {
    case .idle, .drainedEarly, .over: break
    case .serving: phase = .over(.wait)
    case .noticed(let notice): phase = .over(notice.idleReads)
    case .draining(let draining): phase = .over(draining.idleReads)
    }
  }

  /// Has no effect unless a drain is under way.
  mutating func changeBacklog(_ change: (inout Backlog) -> Void) {
    guard case .draining(var draining) = phase else { return }
    change(&draining.backlog)
    phase = .draining(draining)
  }

  mutating func ended() { phase = .idle }
}

/// How the handler of a connection or of a datagram has ended.
enum HandlerEnd {
  case finished
  case failed
  case failedByPeer
}
