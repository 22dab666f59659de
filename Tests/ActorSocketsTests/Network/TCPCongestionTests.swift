import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPCongestionTests {
  private static let millisecond: Int64 = 1_000_000

  private func use(_ congestion: inout TCPCongestion, at now: Int64 = 0) {
    congestion.used(
      .init(segments: congestion.window, isFull: true, acknowledged: 0, sent: 0, mayShrink: true),
      timeout: 300 * Self.millisecond, at: now)
  }

  /// A round trip in which everything is acknowledged.
  private func round(_ congestion: inout TCPCongestion, at now: Int64) {
    use(&congestion, at: now)
    for _ in 0..<congestion.window { congestion.acknowledged(1, at: now) }
  }

  private func lose(_ congestion: inout TCPCongestion) {
    congestion.beginReduction(mayUndo: true)
    congestion.endReduction()
  }

  @Test func `The window doubles each round trip until the first loss`() {
    var congestion = TCPCongestion()
    for expected in [20, 40, 80, 160] {
      round(&congestion, at: 0)
      #expect(congestion.window == expected)
    }
    lose(&congestion)
    #expect(congestion.window == 160 * 717 / 1_024 && !congestion.isInSlowStart)
  }

  @Test func `Reno halves the window after a loss, and then adds one each round trip`() {
    var congestion = TCPCongestion()
    congestion.algorithm = .reno
    for _ in 0..<3 { round(&congestion, at: 0) }
    lose(&congestion)
    #expect(congestion.window == 40)
    for expected in 41...60 {
      round(&congestion, at: 0)
      #expect(congestion.window == expected)
    }
  }

  @Test func `CUBIC comes back to the window before a loss in the time of its curve, slowly near it`() {
    var congestion = TCPCongestion()
    while congestion.window < 1_000 { round(&congestion, at: 0) }
    let before = congestion.window
    lose(&congestion)
    var now: Int64 = 0
    var windows: [Int] = []
    while congestion.window < before, now < 100 * TCPMachine.second {
      now += 100 * Self.millisecond
      round(&congestion, at: now)
      windows.append(congestion.window)
    }
    // The cube root of 0.3 W / 0.4.
    let expected = 9.86 * Double(TCPMachine.second)
    #expect(abs(Double(now) / expected - 1) < 0.15)
    #expect(windows[10] - windows[0] > 4 * (windows[windows.count - 1] - windows[windows.count - 11]))
  }

  @Test func `The cube root is exact`() {
    for root in [0, 1, 2, 3, 99, 1_000, 1_048_575] {
      #expect(TCPCubic.cubeRoot(root * root * root) == root)
      #expect(TCPCubic.cubeRoot(root * root * root + 3 * root) == root)
    }
  }

  @Test func `A reduction is undone if nothing was lost`() {
    var congestion = TCPCongestion()
    for _ in 0..<3 { round(&congestion, at: 0) }
    congestion.beginReduction(mayUndo: true)
    congestion.reduce(delivered: 3, inFlight: 70, isProgress: false)
    #expect(congestion.window < 80)
    congestion.undo()
    #expect(congestion.window == 80 && congestion.isInSlowStart)
  }

  @Test func `While a loss is repaired, the window moves to the threshold in proportion`() {
    var congestion = TCPCongestion()
    for _ in 0..<3 { round(&congestion, at: 0) }
    congestion.beginReduction(mayUndo: true)
    var inFlight = 79
    var sent = 0
    for _ in 0..<79 {
      inFlight -= 1
      congestion.reduce(delivered: 1, inFlight: inFlight, isProgress: false)
      while inFlight < congestion.window {
        inFlight += 1
        sent += 1
        congestion.sentWhileReducing(1)
      }
    }
    // 0.7 segments for each that has arrived.
    #expect(abs(sent - 55) <= 1 && abs(inFlight - congestion.threshold) <= 1)
    congestion.endReduction()
    #expect(congestion.window == congestion.threshold)
  }

  @Test func `A timer leaves one segment, and only the first timer of a row lowers the threshold`() {
    var congestion = TCPCongestion()
    for _ in 0..<3 { round(&congestion, at: 0) }
    congestion.timedOut(inFlight: 0, isNew: true)
    let threshold = congestion.threshold
    #expect(congestion.window == 1 && threshold == 80 * 717 / 1_024)
    congestion.timedOut(inFlight: 0, isNew: false)
    #expect(congestion.window == 1 && congestion.threshold == threshold)
  }

  @Test func `A round that takes longer ends slow start before anything is lost`() {
    var congestion = TCPCongestion()
    for _ in 0..<2 { round(&congestion, at: 0) }
    var number = 0
    while congestion.isInSlowStart, number < 200 {
      number += 1
      let time = Int64(20 + number) * Self.millisecond
      let state = HyStart.Now(
        time: Int64(number) * 5 * Self.millisecond, window: congestion.window, rate: 1_000_000, acknowledged: number,
        sent: number + 40)
      congestion.measured(time, state)
    }
    #expect(number < 100 && congestion.threshold == congestion.window)
  }

  @Test func `Whatever happens, the window is at least one segment`() {
    for seed in 0..<TestSupport.seeds(300) {
      var random = SeededRandom(seed: seed)
      var congestion = TCPCongestion()
      congestion.algorithm = random.below(2) == 0 ? .reno : .cubic
      var now: Int64 = 0
      for _ in 0..<300 {
        now += Int64(random.below(100)) * Self.millisecond
        switch random.below(9) {
        case 0: congestion.beginReduction(mayUndo: random.below(2) == 0)
        case 1: congestion.endReduction()
        case 2: congestion.timedOut(inFlight: random.below(5), isNew: random.below(2) == 0)
        case 3: congestion.undo()
        case 4:
          congestion.restart(
            after: Int64(random.below(2_000)) * Self.millisecond, timeout: 300 * Self.millisecond, at: now)
        case 5: congestion.reduce(delivered: random.below(5), inFlight: random.below(50), isProgress: true)
        case 6: use(&congestion, at: now)
        default: congestion.acknowledged(1 + random.below(4), at: now)
        }
        #expect(congestion.window >= 1 && congestion.threshold >= 2, "seed \(seed)")
      }
    }
  }
}
