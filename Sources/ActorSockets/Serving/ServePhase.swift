// The phases of a server, whatever it serves: a pure state machine.
//
//                     drained, with a notice ▶ noticed ─ the notice is over, or drained without one ▶ draining
//                                │
//            started             │ drained               the time is over
//    idle ────────────▶ serving ─┴──────▶ draining ─────────────────────────▶ over
//     │ ▲                  └────────── drained, without time ───────────────▶ │
//     │ │                                    │ all handlers have ended         │
//     │ └────────────────────────────────────┴────────────── ended ────────────┘
//     │ drained
//     ▼
//    drained early: the next `serve` returns at once
//
// Invariants:
// - If several drains are requested, the earliest end applies, and of their `IdleReads` the one that ends most reads.
// - During a notice the server serves as before. If several drains have one, the earliest end of a notice applies, with its drain.
// - The backlog is what waited when the first drain began. It only shrinks.

internal import EpollReactor

/// `Backlog` says how much of what waited when a drain began is still to be taken.
struct ServePhase<Backlog: Sendable>: Sendable {
  private enum Phase: Sendable {
    case idle
    case drainedEarly
    case serving
    case noticed(Drain, end: Int64)
    case draining(Draining)
    /// The drain is over, which ended these idle reads.
    case over(Drain.IdleReads)
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

  /// The drain that begins when the notice is over; `nil` unless a notice is under way.
  var noticed: Drain? {
    if case .noticed(let drain, _) = phase { drain.withoutNotice } else { nil }
  }

  var isDrainedEarly: Bool {
    if case .drainedEarly = phase { true } else { false }
  }

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

  /// `waiting` is called when the first drain begins. Returns when the notice or the drain is over; `nil` if the drain is over now, or if
  /// the server was not started.
  mutating func drained(_ drain: Drain, at now: Int64, waiting: () -> Backlog) -> Int64? {
    let end = instant(now, plus: drain.nanoseconds)
    switch phase {
    case .idle: phase = .drainedEarly
    case .drainedEarly, .over: break
    case .serving where drain.notice > 0, .noticed where drain.notice > 0: return notice(drain, at: now)
    case .serving where end > now, .noticed where end > now:
      phase = .draining(Draining(idleReads: drain.idleReads, end: end, backlog: waiting()))
      return end
    case .serving, .noticed: phase = .over(drain.idleReads)
    case .draining(var draining):
      draining.idleReads = max(draining.idleReads, drain.idleReads)
      draining.end = min(draining.end, end)
      phase = draining.end > now ? .draining(draining) : .over(draining.idleReads)
      if draining.end > now { return draining.end }
    }
    return nil
  }

  private mutating func notice(_ drain: Drain, at now: Int64) -> Int64 {
    let end = instant(now, plus: drain.notice)
    if case .noticed(_, let earlier) = phase, earlier <= end { return earlier }
    phase = .noticed(drain, end: end)
    return end
  }

  mutating func drainIsOver() {
    if isServing { phase = .over(idleReads ?? .wait) }
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
