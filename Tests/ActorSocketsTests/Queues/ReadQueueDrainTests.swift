import TestSupport
import Testing

@testable import ActorSockets

/// What reads get after a drain has ended the idle reads.
@Suite struct ReadQueueDrainTests {
  private static let toEnd = ReadKind.toEnd(maximumLength: 10)
  private static let line = ReadKind.line(.lf, maximumLength: 10)

  @Test func `An end that a drain makes is not the end that a read to the end waits for`() {
    var driver = ReadDriver()
    driver.admit(Self.line, 1, isEnqueued: true)
    driver.queue.drain(all: false)
    driver.pump()
    let isIdle = driver.queue.endIfIdle()
    driver.admit(Self.toEnd, 2)
    driver.admit(.exactly(2), 3)
    driver.admit(.any(upTo: 10), 4)
    driver.admit(Self.toEnd, 5)
    let failed = ReadResult.failed(.endOfStream)
    #expect(isIdle && driver.results == [.end, failed, failed, .end, failed])
    for tag in [2, 3, 5] {
      let error = driver.errors[tag].map { "\($0)" } ?? ""
      #expect(error.contains("the server stops") && !error.contains("the peer finished"), "\(error)")
    }
  }

  @Test func `A read to the end before the idle read goes on, and gets the end of the peer`() {
    var driver = ReadDriver(Self.toEnd, Self.line)
    driver.queue.drain(all: true)
    driver.pump()
    let isIdle = driver.queue.endIfIdle()
    driver.receive("ab")
    driver.end()
    #expect(!isIdle && driver.results == [.text("ab"), .end])
  }

  @Test func `The end of the peer before the drain stays one`() {
    var driver = ReadDriver(Self.line)
    driver.end()
    driver.queue.drain(all: true)
    driver.admit(Self.toEnd, 2)
    let isIdle = driver.queue.endIfIdle()
    #expect(!isIdle && driver.results == [.end, .bytes([])])
  }
}
