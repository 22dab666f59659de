import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.pure)) struct SegmentRunTests {
  @Test func `Datagrams of one length are a run, and a shorter one ends it`() throws {
    var run = try #require(SegmentRun(size: 100, limit: 1000))
    #expect([100, 100, 40, 40, 100].map { run.extend(by: $0) } == [true, true, true, false, false])
    #expect(run.count == 4 && run.bytes == 340 && run.size == 100)
  }

  @Test(arguments: [0, 101, 5000])
  func `Empty and longer datagrams do not join`(length: Int) throws {
    var run = try #require(SegmentRun(size: 100, limit: 1000))
    #expect([length, 100].map { run.extend(by: $0) } == [false, true])
    #expect(run.count == 2 && run.bytes == 200)
  }

  @Test func `No run begins with an empty datagram, with one above the limit, or on a socket without runs`() {
    #expect(SegmentRun(size: 0, limit: 1000) == nil)
    #expect(SegmentRun(size: 1001, limit: 1000) == nil)
    #expect(SegmentRun(size: 1000, limit: 1000) != nil)
    #expect(SegmentRun(size: 1, limit: 0) == nil)
    #expect(SegmentRun(size: 0, limit: 0) == nil)
    #expect(SegmentRun(size: 65_001, limit: .max) == nil)
  }

  @Test(arguments: [(1, 64), (1015, 64), (1016, 63), (1300, 50), (32_500, 2), (32_501, 1), (65_000, 1)])
  func `A run has at most 64 datagrams and 65,000 bytes`(size: Int, most: Int) throws {
    var run = try #require(SegmentRun(size: size, limit: .max))
    while run.extend(by: size) {}
    #expect(run.count == most)
    #expect(run.bytes == most * size)
    #expect(run.bytes <= SegmentRun.mostBytes)
  }

  @Test(arguments: 0..<200)
  func `The kernel divides runs into the datagrams that they were made of`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let choices = (0..<3).map { _ in Int.random(in: 0...3000, using: &random) } + [0, 1, 1200, 65_000]
    var lengths: [Int] = []
    for _ in 0..<300 {
      // Long rows of one length, so that the limits of a run are reached.
      let row = Int.random(in: 1...90, using: &random)
      lengths += Array(repeating: choices.randomElement(using: &random) ?? 0, count: row)
    }
    let limit = [0, 1, 1199, 1200, 65_000].randomElement(using: &random) ?? 0
    var singles: [Int] = []
    var divided: [Int] = []
    var run: SegmentRun?
    func endRun() {
      guard let ended = run.take() else { return }
      divided += stride(from: 0, to: ended.bytes, by: ended.size).map { min(ended.size, ended.bytes - $0) }
      if ended.count > 1 { #expect(ended.size <= limit && ended.bytes <= 65_000 && ended.count <= 64) }
    }
    for length in lengths where run?.extend(by: length) != true {
      endRun()
      run = SegmentRun(size: length, limit: limit)
      if run == nil {
        singles.append(length)
        divided.append(length)
      }
    }
    endRun()
    #expect(divided == lengths)
    #expect(limit > 0 || singles == lengths)
  }
}
