import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPScoreboardTests {
  private static let millisecond: Int64 = 1_000_000

  /// A number of segments of ten bytes, sent a millisecond apart.
  private func board(_ count: Int) -> TCPScoreboard {
    var board = TCPScoreboard()
    for number in 0..<count { board.sent(number * 10..<(number + 1) * 10, at: Int64(number) * Self.millisecond) }
    return board
  }

  @Test func `A segment is lost when a later one has arrived, after a wait`() {
    var board = board(5)
    let now = 20 * Self.millisecond
    let news = board.acknowledged(0, [10..<20], goal: 0, at: now)
    #expect(news.selected == 1 && news.delivered == 1 && news.oldestSelected == Self.millisecond)
    // It was sent a millisecond earlier, and the round trip takes 19.
    let wait = board.findLosses(patience: 5 * Self.millisecond, at: now)
    #expect(wait == 4 * Self.millisecond && board.lost == 0 && board.nextLost() == nil)
    let end = board.findLosses(patience: 5 * Self.millisecond, at: now + 4 * Self.millisecond)
    #expect(end == nil && board.lost == 1)
    #expect(board.nextLost() == 0..<10 && board.inFlight == 3)
    board.sentAgain(0..<10, at: now + 4 * Self.millisecond)
    #expect(board.nextLost() == nil && board.inFlight == 4)
  }

  @Test func `A repetition is lost when something that was sent after it has arrived, and not earlier`() {
    var board = board(3)
    let now = 20 * Self.millisecond
    _ = board.acknowledged(0, [10..<20], goal: 0, at: now)
    _ = board.findLosses(patience: 0, at: now)
    // All at one time: the order counts.
    board.sentAgain(0..<10, at: now)
    board.sent(30..<40, at: now)
    _ = board.acknowledged(0, [10..<30], goal: 0, at: now + Self.millisecond)
    _ = board.findLosses(patience: 0, at: now + Self.millisecond)
    #expect(board.nextLost() == nil)
    _ = board.acknowledged(0, [10..<40], goal: 0, at: now + 20 * Self.millisecond)
    _ = board.findLosses(patience: 0, at: now + 20 * Self.millisecond)
    #expect(board.nextLost() == 0..<10)
  }

  @Test func `Small segments are sent again as one`() {
    var board = board(6)
    _ = board.acknowledged(0, [40..<50], goal: 0, at: 20 * Self.millisecond)
    board.loseAll(at: TCPMachine.second)
    let joined = board.join(10..<20, atMost: 35)
    #expect(joined == 10..<40 && board.segments.map(\.end) == [10, 40, 50, 60])
    board.sentAgain(joined, at: TCPMachine.second)
    let again = board.join(joined, atMost: 100)
    #expect(again == joined, "the peer has the next one")
    #expect(board.lost == 3 && board.repeated == 1 && board.selected == 1)
  }

  @Test func `The rest of a segment of which the peer has only the beginning is found lost`() {
    var board = board(6)
    board.loseAll(at: TCPMachine.second)
    _ = board.acknowledged(10, [], goal: 0, at: TCPMachine.second)
    let joined = board.join(10..<20, atMost: 30)
    for range in [joined, 40..<50, 50..<60] { board.sentAgain(range, at: TCPMachine.second) }
    board.sent(60..<70, at: TCPMachine.second)
    _ = board.findLosses(patience: 0, at: TCPMachine.second)
    #expect(joined == 10..<40 && board.nextLost() == nil)
    let now = TCPMachine.second + 20 * Self.millisecond
    _ = board.acknowledged(20, [], goal: 0, at: now)
    _ = board.acknowledged(20, [60..<70], goal: 0, at: now)
    _ = board.findLosses(patience: 0, at: now)
    #expect(board.nextLost() == 20..<40)
  }

  @Test func `When everything is acknowledged, nothing is kept`() {
    var board = board(100)
    _ = board.acknowledged(0, [10..<1_000], goal: 0, at: TCPMachine.second)
    _ = board.findLosses(patience: 0, at: TCPMachine.second)
    board.sentAgain(0..<10, at: TCPMachine.second)
    #expect(board.keptEntries == 201)
    _ = board.acknowledged(1_000, [], goal: 0, at: 2 * TCPMachine.second)
    #expect(board.count == 0 && board.keptEntries == 0)
  }

  @Test func `A report that grows at both ends, or joins two others, marks everything`() {
    var board = board(20)
    for blocks in [[100..<120], [60..<80, 100..<120], [95..<125, 60..<80], [55..<185], [20..<30, 55..<185]] {
      _ = board.acknowledged(0, blocks, goal: 0, at: TCPMachine.second)
    }
    let selected = board.segments.filter { $0.isSelected }.map { $0.start }
    #expect(selected == [20] + Array(stride(from: 60, to: 180, by: 10)))
  }

  @Test func `A report of bytes that came twice marks nothing`() {
    var board = board(4)
    let below = board.acknowledged(20, [0..<10], goal: 0, at: 20 * Self.millisecond)
    #expect(below.duplicate == 0..<10 && below.selected == 0 && below.acknowledged == 2)
    let inside = board.acknowledged(20, [30..<35, 30..<40], goal: 0, at: 20 * Self.millisecond)
    #expect(inside.duplicate == 30..<35 && inside.selected == 1)
  }

  @Test func `A peer that has dropped what it reported gets it again after a timeout`() {
    var board = board(3)
    _ = board.acknowledged(0, [10..<30], goal: 0, at: 20 * Self.millisecond)
    _ = board.acknowledged(10, [], goal: 0, at: 30 * Self.millisecond)
    board.loseAll(at: TCPMachine.second)
    #expect(board.selected == 0 && board.lost == 2 && board.nextLost() == 10..<20)
  }

  @Test func `Random histories keep the counts, and everything is repaired`() {
    for seed in 0..<TestSupport.seeds(300) {
      var random = SeededRandom(seed: seed)
      var board = TCPScoreboard()
      var (now, next, acknowledged): (Int64, Int, Int) = (0, 0, 0)
      var arrived: Set<Int> = []
      for _ in 0..<200 {
        now += Int64(random.below(5)) * Self.millisecond
        switch random.below(10) {
        case 0..<4:
          board.sent(next * 10..<(next + 1) * 10, at: now)
          if random.below(4) > 0 { arrived.insert(next) }
          next += 1
        case 4:
          if let lost = board.nextLost() {
            board.sentAgain(lost, at: now)
            if random.below(3) > 0 { arrived.formUnion(lost.lowerBound / 10..<(lost.upperBound + 9) / 10) }
          }
        case 5 where random.below(5) == 0: board.loseAll(at: now)
        case 6 where random.below(5) == 0: board.clearLosses()
        default:
          while arrived.contains(acknowledged) { acknowledged += 1 }
          let blocks = arrived.filter { $0 > acknowledged }.sorted().suffix(3).map { $0 * 10..<($0 + 1) * 10 }
          _ = board.acknowledged(acknowledged * 10, Array(blocks), goal: 0, at: now)
          for block in blocks {
            let isMissing = board.segments.contains {
              block.lowerBound <= $0.start && $0.end <= block.upperBound && !$0.isSelected
            }
            #expect(!isMissing, "seed \(seed)")
          }
          _ = board.findLosses(patience: 0, at: now)
        }
        let segments = board.segments
        #expect(board.selected == segments.count(where: \.isSelected), "seed \(seed)")
        #expect(board.lost == segments.count(where: \.isLost), "seed \(seed)")
        #expect(board.repeated == segments.count(where: \.isRepeated), "seed \(seed)")
        #expect(
          board.inFlight >= 0 && !segments.contains { $0.isSelected && ($0.isLost || $0.isRepeated) }, "seed \(seed)")
        let first = segments.first { $0.isLost && !$0.isRepeated }
        var copy = board
        #expect(copy.nextLost()?.lowerBound == first?.start, "seed \(seed)")
      }
    }
  }
}
