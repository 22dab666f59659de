import TestSupport
import Testing

@testable import ActorSockets

/// Idle reads of a stream that drains.
@Suite(.tags(.pure)) struct ReadQueueDrainTests {
  /// Kinds of reads, each with what ends it while the stream drains: nothing, `.endAll` only, or both.
  private static let kinds: [(kind: ReadKind, endsFramed: Bool, endsAll: Bool)] = [
    (.any(upTo: 10), false, true),
    (.peek(upTo: 10), false, true),
    (.borrow(moreThan: 0), false, true),
    // The borrow that is the place of an upgrade.
    (.borrow(moreThan: -1), false, false),
    (.exactly(4), false, false),
    (.exactly(4, orEnd: true), true, true),
    (.until(.crlf, maximumLength: 10), false, false),
    (.until(.crlf, maximumLength: 10, orEnd: true), true, true),
    (.line(.any, maximumLength: 10), true, true),
    (.line(.lf, maximumLength: 10), true, true),
    (.message(.uint16(.big), maximumLength: 10), true, true),
    (.batch(of: .line(.lf, maximumLength: 10)), true, true),
    (.batch(of: .exactly(4, orEnd: true)), true, true),
    (.parsing(LineParser(), 10), true, true),
    (.batch(of: .parsing(LineParser(), 10)), true, true),
  ]

  @Test func `A read that may find the end of the stream ends between two messages`() {
    for (kind, endsFramed, endsAll) in Self.kinds {
      for (all, ends) in [(false, endsFramed), (true, endsAll)] {
        var driver = ReadDriver()
        driver.admit(kind, 1)
        let before = driver.endIfIdle()
        #expect(!before, "\(kind) has ended before the drain")
        driver.queue.drain(all: all)
        driver.pump()
        let after = driver.endIfIdle()
        #expect(after == ends, "\(kind), all: \(all)")
        if case .borrow = kind { continue }
        #expect(driver.results == (ends ? [.end] : []))
      }
    }
  }

  @Test func `A read in the middle of a message goes on`() {
    for (kind, first, rest) in [
      (ReadKind.line(.lf, maximumLength: 10), "a", "b\n"), (.exactly(3, orEnd: true), "a", "bc"),
      (.message(.uint8, maximumLength: 10), "\u{2}", "ab"), (.parsing(LineParser(), 10), "a", "b\n"),
      (.parsing(ConsumingLineParser(), 10), "a", "b\n"), (.batch(of: .line(.lf, maximumLength: 10)), "a", "b\n"),
    ] {
      var driver = ReadDriver()
      driver.admit(kind, 1)
      driver.queue.drain(all: true)
      driver.receive(first)
      let isIdleWithin = driver.endIfIdle()
      #expect(!isIdleWithin)
      driver.receive(rest)
      #expect(driver.finished.count == 1 && driver.finished.first?.result != .end)
      driver.admit(kind, 2)
      let isIdleBehind = driver.endIfIdle()
      #expect(isIdleBehind && driver.finished.last == .init(2, .end))
    }
  }

  @Test func `The line feed that belongs to the last line is no message`() {
    var driver = ReadDriver()
    driver.admit(.line(.any, maximumLength: 10), 1)
    driver.receive("a\r")
    driver.admit(.line(.any, maximumLength: 10), 2)
    driver.queue.drain(all: false)
    driver.receive("\n")
    let isIdle = driver.endIfIdle()
    #expect(isIdle && driver.results == [.text("a"), .end])
  }

  @Test func `Behind an idle read the stream has ended, so no read gets the bytes of another one`() {
    var driver = ReadDriver()
    driver.admit(.line(.lf, maximumLength: 10), 1, isEnqueued: true)
    driver.admit(.line(.lf, maximumLength: 10), 2, isEnqueued: true)
    driver.admit(.exactly(2), 3, isEnqueued: true)
    driver.queue.drain(all: false)
    driver.pump()
    let isIdle = driver.endIfIdle()
    #expect(isIdle && driver.results == [.end, .end, .failed(.endOfStream)])
    driver.admit(.any(upTo: 10), 4)
    driver.admit(.line(.lf, maximumLength: 10), 5)
    #expect(driver.results.suffix(2) == [.end, .end] && driver.wanted == nil)
  }

  @Test func `Nothing is idle before the stream is up, after its end, and while it is lent`() {
    var opening = ReadDriver(isOpen: false)
    opening.admit(.line(.lf, maximumLength: 10), 1)
    opening.queue.drain(all: true)
    let openingIsIdle = opening.endIfIdle()
    #expect(!openingIsIdle && !opening.queue.isDraining)

    var ended = ReadDriver()
    ended.queue.drain(all: true)
    ended.end(.failed(SocketError(.connectionReset, operation: "read")))
    ended.admit(.line(.lf, maximumLength: 10), 1)
    let endedIsIdle = ended.endIfIdle()
    #expect(!endedIsIdle && ended.results == [.failed(.connectionReset)])

    var refused = ReadDriver()
    refused.refuse(.closed)
    refused.queue.drain(all: true)
    refused.admit(.line(.lf, maximumLength: 10), 1)
    let refusedIsIdle = refused.endIfIdle()
    #expect(!refusedIsIdle && refused.results == [.failed(.closed)])

    var lent = ReadDriver()
    lent.admit(.borrow(moreThan: 0), 1)
    lent.receive("a")
    lent.queue.drain(all: true)
    #expect(lent.results == [.borrow])
    let lentIsIdle = lent.endIfIdle()
    #expect(!lentIsIdle)
    lent.endBorrow(1, consumed: 1, waitingForMoreThan: 0)
    let returnedIsIdle = lent.endIfIdle()
    #expect(returnedIsIdle && lent.results == [.borrow, .borrow])
  }

  @Test func `While the stream drains, no read takes a short way past its end`() {
    var driver = ReadDriver()
    driver.admit(.any(upTo: 10), 1)
    guard let entry = driver.queue.first else { return }
    _ = driver.remove(1)
    driver.queue.keep(entry)
    #expect(driver.queue.isFree)
    driver.queue.drain(all: false)
    #expect(!driver.queue.isFree)
    #expect(driver.queue.admitSpare(.any(upTo: 10))?.waits == false)
  }

  @Test func `Of two drains the one that ends more counts`() {
    for order in [[true, false], [false, true]] {
      var driver = ReadDriver()
      driver.admit(.any(upTo: 10), 1)
      for all in order { driver.queue.drain(all: all) }
      let isIdle = driver.endIfIdle()
      #expect(isIdle)
    }
  }
}

extension ReadDriver {
  /// Ends the stream if the first read is idle.
  fileprivate mutating func endIfIdle() -> Bool {
    defer { pump() }
    return queue.endIfIdle()
  }
}
