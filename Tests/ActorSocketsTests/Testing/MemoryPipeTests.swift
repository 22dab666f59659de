import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite struct MemoryPipeTests {
  @Test func `No more can be sent than the other end has room for`() {
    var pipe = MemoryPipe(capacity: 4)
    #expect(pipe.send(3) == 3)
    #expect(pipe.send(3) == 1)
    #expect(pipe.send(3) == 0)
    #expect(pipe.send(0) == 0)
    pipe.granted(2)
    #expect(pipe.send(3) == 2)
    var full = MemoryPipe(capacity: 0)
    #expect(full.send(.max) == 0)
  }

  @Test func `The end, a reset and finishing are told apart, and bytes that arrived stay`() {
    var pipe = MemoryPipe(capacity: 10)
    #expect(!pipe.hasEnded && !pipe.isReset && !pipe.hasFinished)
    pipe.received([1])
    pipe.finish()
    #expect(pipe.hasFinished && !pipe.hasEnded)
    pipe.ended()
    #expect(pipe.hasEnded && !pipe.isReset)
    pipe.reset()
    #expect(pipe.isReset)
    #expect(pipe.take(.max) == [1])
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `Between two ends nothing is lost, and neither ever holds more than its capacity`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let capacity = Int.random(in: 1...50, using: &random)
    var sender = MemoryPipe(capacity: capacity)
    var receiver = MemoryPipe(capacity: capacity)
    // The messages under way: bytes one way, credit the other.
    var bytesUnderWay: [[UInt8]] = []
    var creditUnderWay: [Int] = []
    var sent: [UInt8] = []
    var got: [UInt8] = []
    for event in 0..<1000 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        let count = sender.send(Int.random(in: 0...30, using: &random))
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: sent.count + $0) }
        sent += bytes
        if count > 0 { bytesUnderWay.append(bytes) }
      case 1 where !bytesUnderWay.isEmpty:
        receiver.received(bytesUnderWay.removeFirst())
      case 2:
        let taken = receiver.take(Int.random(in: 0...30, using: &random))
        got += taken
        if !taken.isEmpty { creditUnderWay.append(taken.count) }
      case 3 where !creditUnderWay.isEmpty:
        sender.granted(creditUnderWay.removeFirst())
      default: break
      }
      let total =
        sender.credit + bytesUnderWay.joined().count + receiver.arrived.count + creditUnderWay.reduce(0, +)
      if total != capacity || receiver.arrived.count > capacity || sender.credit < 0 {
        Issue.record("seed \(seed), event \(event): \(total) of \(capacity)")
        return
      }
    }
    for bytes in bytesUnderWay { receiver.received(bytes) }
    got += receiver.take(.max)
    #expect(got == sent, "seed \(seed)")
  }

  @Test(arguments: [0, -1, Int.min])
  func `A pair that is to have no room has room for one byte`(capacity: Int) async throws {
    try await within("the bytes arrive") {
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = capacity
      let (near, far) = InMemoryConnection.pair(configuration: configuration)
      let writing = near.enqueueWrite(Array("abc".utf8))
      #expect(try await far.read(exactly: 3) == Array("abc".utf8))
      try await writing.value
    }
  }
}
