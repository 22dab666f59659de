import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPAcknowledgingTests {
  private static let millisecond: Int64 = 1_000_000
  private static let full = 1_448

  /// One end that gets segments, each a millisecond after the one before it.
  private struct Receiver {
    var acknowledging = TCPAcknowledging()
    var expected = 1
    var now: Int64 = 0

    init() { acknowledging.sent(1) }

    /// Returns whether the segment is acknowledged at once.
    mutating func receive(_ count: Int, after time: Int64 = millisecond) -> Bool {
      now += time
      expected += count
      acknowledging.arrived(count, window: 65_536, timeout: 220 * millisecond, at: now)
      if !acknowledging.shouldAcknowledge(expected, roundTrip: 20 * millisecond, at: now) { return false }
      acknowledging.sent(expected)
      return true
    }
  }

  private func receiver(after count: Int) -> Receiver {
    var receiver = Receiver()
    for _ in 0..<count { _ = receiver.receive(Self.full) }
    return receiver
  }

  @Test func `The first segments are acknowledged one by one, then every second one`() {
    var receiver = Receiver()
    let answers = (0..<40).map { _ in receiver.receive(Self.full) }
    let quick = answers.prefix { $0 }.count
    #expect((15...17).contains(quick))
    for (number, isAnswered) in answers.dropFirst(quick).enumerated() { #expect(isAnswered == (number % 2 == 1)) }
  }

  @Test func `A single segment is acknowledged after 40 milliseconds`() {
    var receiver = receiver(after: 30)
    if receiver.acknowledging.timer != nil { _ = receiver.receive(Self.full) }
    let isAnswered = receiver.receive(Self.full)
    #expect(!isAnswered && receiver.acknowledging.timer == receiver.now + 40 * Self.millisecond)
    receiver.acknowledging.waited(timeout: 220 * Self.millisecond)
    receiver.acknowledging.sent(receiver.expected)
    #expect(receiver.acknowledging.timer == nil)
  }

  @Test func `A segment that is not full is acknowledged when the program has taken it, unless the program answers`() {
    var receiver = receiver(after: 30)
    _ = receiver.receive(Self.full)
    receiver.acknowledging.sent(receiver.expected)
    #expect(!receiver.acknowledging.shouldAcknowledgeTaken())
    let isAnswered = receiver.receive(100)
    #expect(!isAnswered && receiver.acknowledging.shouldAcknowledgeTaken())
    receiver.acknowledging.sentBytes(at: receiver.now + Self.millisecond)
    receiver.acknowledging.sent(receiver.expected)
    let isNextAnswered = receiver.receive(100)
    #expect(!isNextAnswered && !receiver.acknowledging.shouldAcknowledgeTaken())
  }

  @Test func `Bytes that came twice are acknowledged at once, and what follows`() {
    var receiver = receiver(after: 30)
    receiver.acknowledging.hurry(window: 65_536)
    let answers = (0..<10).map { _ in receiver.receive(Self.full) }
    #expect(answers.allSatisfy { $0 })
  }

  @Test func `No acknowledgement waits longer than 200 milliseconds`() {
    var random = SeededRandom(seed: 1)
    for _ in 0..<200 {
      var receiver = Receiver()
      for _ in 0..<100 {
        let time = Int64(random.below(400)) * Self.millisecond
        if let timer = receiver.acknowledging.timer, timer <= receiver.now + time {
          receiver.acknowledging.waited(timeout: 300 * Self.millisecond)
          receiver.acknowledging.sent(receiver.expected)
        }
        if random.below(4) == 0 { receiver.acknowledging.sentBytes(at: receiver.now) }
        let isAnswered = receiver.receive(1 + random.below(Self.full), after: time)
        let wait = receiver.acknowledging.timer.map { $0 - receiver.now }
        #expect(isAnswered ? wait == nil : (0...200 * Self.millisecond).contains(wait ?? -1))
      }
    }
  }

  // MARK: Nagle's algorithm

  private func machine(isEager: Bool) -> TCPSending {
    var sending = TCPSending()
    sending.sentSyn()
    sending.widenWindow(to: 100_000)
    _ = sending.acknowledged(1)
    sending.isEager = isEager
    return sending
  }

  private func write(_ count: Int, to sending: inout TCPSending) -> [Int] {
    _ = sending.take([UInt8](repeating: 1, count: count).span)
    return flush(&sending)
  }

  private func flush(_ sending: inout TCPSending) -> [Int] {
    var sizes: [Int] = []
    while let range = sending.nextRange() { sizes.append(sending.newSegment(range, at: 0).bytes.count) }
    return sizes
  }

  @Test func `At most one segment that is not full is in flight, unless TCP_NODELAY is on`() {
    var sending = machine(isEager: false)
    let sizes = [100, 100, Self.full].map { write($0, to: &sending) }
    #expect(sizes == [[100], [], [Self.full]])
    _ = sending.acknowledged(101)
    let waiting = flush(&sending)
    #expect(waiting == [100])
    sending.isEager = true
    let eager = write(7, to: &sending)
    #expect(eager == [7])
  }

  @Test func `The end of the stream does not wait`() {
    var sending = machine(isEager: false)
    let sizes = [100, 50].map { write($0, to: &sending) }
    #expect(sizes == [[100], []])
    sending.finish()
    let last = flush(&sending)
    #expect(last == [50])
    #expect(!sending.isPending || sending.next > sending.end)
  }

  @Test func `No segment is cut at the edge of the window while something is in flight`() {
    var sending = TCPSending()
    sending.sentSyn()
    sending.widenWindow(to: 2_001)
    _ = sending.acknowledged(1)
    sending.isEager = true
    let first = write(5_000, to: &sending)
    #expect(first == [Self.full])
    let probe = sending.nextRange(isForced: true)
    #expect(probe == nil)
    _ = sending.acknowledged(1 + Self.full)
    let second = flush(&sending)
    #expect(second == [2_000 - Self.full], "nothing else makes the peer answer")
    sending.widenWindow(to: 4_001)
    let third = flush(&sending)
    #expect(third == [Self.full])
  }

  @Test func `The last bytes may end at the edge of the window`() {
    var sending = TCPSending()
    sending.sentSyn()
    sending.widenWindow(to: 2_001)
    _ = sending.acknowledged(1)
    sending.isEager = true
    let sizes = write(2_000, to: &sending)
    #expect(sizes == [Self.full, 2_000 - Self.full])
  }
}
