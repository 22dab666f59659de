import TestSupport
import Testing

@testable import ActorSocketsTesting

/// A suite of its own, because it measures time.
@Suite(.tags(.singleThread)) struct TCPScoreboardTimeTests {
  @Test func `A long report takes no longer when most of it is known`() {
    var board = TCPScoreboard()
    for number in 0..<20_000 { board.sent(number * 10..<(number + 1) * 10, at: 0) }
    let clock = ContinuousClock()
    let time = clock.measure {
      for end in 2...20_000 { _ = board.acknowledged(0, [10..<end * 10], goal: 0, at: TCPMachine.second) }
    }
    #expect(board.selected == 19_999)
    // To look at each segment of each report would be 200 million steps.
    #expect(time < .seconds(20 * patience))
  }
}
