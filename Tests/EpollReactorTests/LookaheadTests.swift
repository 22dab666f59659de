import TestSupport
import Testing

@testable import EpollReactor

@Suite struct LookaheadTests {
  private let executor: ReactorExecutor
  private let lookahead: Lookahead

  init() {
    executor = ReactorExecutor(Reactor())
    lookahead = Lookahead(ends: [3, 4, 10], executor)
  }

  @Test func `Elements are taken in their order, each once`() {
    #expect((0..<5).map { _ in lookahead.take() } == [0, 1, 2, nil, nil])
    let taken = lookahead.reclaim()
    #expect(taken == (3, 10))
  }

  @Test func `After taking back no element is taken, and the end is that of the last element that was taken`() {
    _ = lookahead.take()
    _ = lookahead.take()
    let taken = lookahead.reclaim()
    #expect(taken == (2, 4))
    #expect(lookahead.take() == nil)
    let untouched = Lookahead(ends: [7], executor).reclaim()
    #expect(untouched == (0, 0))
  }

  @Test
  func
    `Nothing is taken while a call waits, nor behind one that has not said that it leaves the elements`()
  {
    executor.admission.callWasQueued()
    #expect(lookahead.take() == nil)
    executor.admission.queuedCallBegins()
    #expect(lookahead.take() == nil)
    lookahead.callLeavesElements()
    #expect(lookahead.take() == 0)
  }

  @Test func `A call that leaves the elements in place says nothing about a later one that waits`() {
    executor.admission.callWasQueued()
    executor.admission.callWasQueued()
    executor.admission.queuedCallBegins()
    lookahead.callLeavesElements()
    #expect(lookahead.take() == nil)
    executor.admission.queuedCallBegins()
    lookahead.callLeavesElements()
    #expect(lookahead.take() == 0)
  }

  @Test func `The calls that had begun before the elements were found do not count`() {
    executor.admission.callWasQueued()
    executor.admission.queuedCallBegins()
    let later = Lookahead(ends: [1], executor)
    #expect(later.take() == 0)
  }

  /// The limits of looks ahead, after each of which the loop takes this number of elements. As many as are looked for have arrived.
  private func limits(_ taken: [Int]) -> [Int?] {
    var limit = LookaheadLimit(1)
    return taken.map { taken in
      let next = limit.next()
      if let next { limit.learn(taken: min(taken, next), of: next) }
      return next
    }
  }

  @Test func `A loop that took all looks twice as far next time, another one as far as it took`() {
    #expect(limits([99, 99, 99, 2, 99, 99]) == [1, 2, 4, 8, 2, 4])
    #expect(limits([Int](repeating: 99, count: 9)) == [1, 2, 4, 8, 16, 32, 64, 64, 64])
  }

  @Test func `A loop that took nothing does not look ahead at its next read`() {
    #expect(limits([0, 0, 0, 1, 1]) == [1, nil, 1, nil, 1])
  }

  @Test func `If fewer elements had arrived, the limit stays`() {
    var limit = LookaheadLimit(8)
    limit.learn(taken: 3, of: 3)
    #expect(limit == LookaheadLimit(8))
    limit.learn(taken: 2, of: 3)
    #expect(limit == LookaheadLimit(2))
  }
}
