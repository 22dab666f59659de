import TestSupport
import Testing

@testable import ActorSockets

/// How several drains of a server add up, with and without a notice.
@Suite struct ServePhaseTests {
  private static var serving: ServePhase<Int> {
    var phase = ServePhase<Int>()
    phase.started()
    return phase
  }

  private static func drain(
    _ time: Int64, _ idleReads: Drain.IdleReads = .endMessages, notice: Int64 = 0
  ) -> Drain {
    .within(.nanoseconds(time), idleReads: idleReads, notice: .nanoseconds(notice))
  }

  @Test func `A drain that is requested during a notice does not put off the end`() {
    var phase = Self.serving
    _ = phase.drained(Self.drain(50, notice: 20), at: 100) { 1 }
    let end = phase.drained(Self.drain(1_000), at: 110) { 1 }
    #expect(end == 170 && phase.isDraining)
    let sooner = phase.drained(Self.drain(30), at: 120) { 1 }
    #expect(sooner == 150)
  }

  @Test func `A drain that is requested during a notice ends no fewer idle reads`() {
    for idleReads in [Drain.IdleReads.wait, .endMessages, .endAll] {
      var phase = Self.serving
      _ = phase.drained(Self.drain(50, .endMessages, notice: 20), at: 100) { 1 }
      #expect(phase.idleReads == nil)
      _ = phase.drained(Self.drain(50, idleReads), at: 110) { 1 }
      #expect(phase.idleReads == max(idleReads, .endMessages))
      var over = Self.serving
      _ = over.drained(Self.drain(50, .endAll, notice: 20), at: 100) { 1 }
      _ = over.drained(.immediately, at: 110) { 1 }
      #expect(over.isOver && over.idleReads == .endAll)
    }
  }

  @Test func `Of two notices the earlier end counts, and the stricter drain`() {
    var phase = Self.serving
    _ = phase.drained(Self.drain(500, .wait, notice: 20), at: 100) { 1 }
    let notice = phase.drained(Self.drain(50, .endAll, notice: 200), at: 100) { 1 }
    #expect(notice == 120 && phase.isNoticed)
    let end = phase.noticeIsOver(at: 120) { 1 }
    #expect(end == 350 && phase.idleReads == .endAll)
  }

  @Test func `A drain with a notice that is requested during a drain ends after its notice`() {
    var phase = Self.serving
    _ = phase.drained(Self.drain(500), at: 100) { 1 }
    let end = phase.drained(Self.drain(50, notice: 20), at: 110) { 1 }
    #expect(end == 180)
  }

  @Test func `A notice whose end is reported late gives the handlers no more time`() {
    var phase = Self.serving
    _ = phase.drained(Self.drain(50, notice: 20), at: 100) { 1 }
    let end = phase.noticeIsOver(at: 140) { 1 }
    #expect(end == 170)
    var late = Self.serving
    _ = late.drained(Self.drain(50, notice: 20), at: 100) { 1 }
    let over = late.noticeIsOver(at: 170) { 1 }
    #expect(over == nil && late.isOver)
  }

  @Test func `Times that are too large for the clock never end`() {
    var phase = Self.serving
    let notice = phase.drained(Self.drain(.max, notice: .max), at: 100) { 1 }
    #expect(notice == .max && phase.isNoticed)
    let end = phase.noticeIsOver(at: 200) { 1 }
    #expect(end == .max && phase.isDraining)
  }

  @Test(arguments: 1...200 as ClosedRange<UInt64>)
  func `Whatever is requested in which order, the earliest times and the strictest drain count`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var phase = Self.serving
    var (begin, end, idleReads) = (Int64.max, Int64.max, Drain.IdleReads.wait)
    var next: Int64?
    for now in stride(from: 0, to: 200, by: 7) as StrideTo<Int64> {
      if Int.random(in: 0..<4, using: &random) > 0 {
        if let due = next, due <= now {
          if phase.isNoticed { next = phase.noticeIsOver(at: now) { 1 } } else { phase.drainIsOver() }
        }
      } else if !phase.isOver {
        let reads = [Drain.IdleReads.wait, .endMessages, .endAll].randomElement(using: &random) ?? .wait
        let notice = [0, Int64.random(in: 0...60, using: &random)].randomElement(using: &random) ?? 0
        let time = Int64.random(in: 0...90, using: &random)
        begin = min(begin, now + notice)
        end = min(end, now + notice + time)
        idleReads = max(idleReads, reads)
        next = phase.drained(Self.drain(time, reads, notice: notice), at: now) { 1 }
      }
      if begin == .max {
        #expect(!phase.isNoticed && !phase.isDraining)
      } else if phase.isNoticed {
        #expect(next == begin && phase.idleReads == nil && phase.backlog == nil)
      } else if phase.isOver {
        #expect(now >= end && phase.idleReads == idleReads)
      } else {
        #expect(next == end && now >= begin && phase.idleReads == idleReads && phase.backlog == 1)
      }
    }
  }
}
