import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

/// A loop over the elements of one kind, as `StreamSequence` and `StreamCore` carry it out.
private struct Loop {
  let kind: ReadKind
  let executor: ReactorExecutor
  /// Whether it looks ahead. If not, it makes a read for each element.
  let looksAhead: Bool
  var lookahead: Lookahead?
  var elements: [[UInt8]] = []

  mutating func next(_ driver: inout ReadDriver, _ tag: Int) -> [UInt8]? {
    if let index = lookahead?.take() { return elements[index] }
    lookahead = nil
    driver.admit(kind, tag)
    return nil
  }

  mutating func lookAhead(_ driver: inout ReadDriver) {
    guard looksAhead, let limit = driver.queue.mayLookAhead(), let ahead = driver.ahead(kind, atMost: limit) else {
      return
    }
    elements = ahead.elements
    lookahead = Lookahead(ends: ahead.ends, executor)
    driver.queue.lookahead = lookahead
  }
}

extension ReadDriver {
  fileprivate func ahead(_ kind: ReadKind, atMost limit: Int) -> (elements: [[UInt8]], ends: [Int])? {
    guard let (frames, ends) = queue.arrived.frames(kind, atMost: limit) else { return nil }
    guard case .batch(let elements) = ReadResult(.success(frames)) else { return nil }
    return (elements, ends)
  }
}

@Suite(.tags(.singleThread)) struct ReadQueueLookaheadTests {
  private let executor = ReactorExecutor(Reactor())

  private static let kinds: [ReadKind] = [
    .line(.lf, maximumLength: 6), .line(.crlf, maximumLength: 6), .line(.any, maximumLength: 6),
    .until(Delimiter([10, 10]), maximumLength: 6, orEnd: true), .exactly(2, orEnd: true),
    .message(.uint8, maximumLength: 5),
  ]

  private static func someBytes(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
    (0..<count).map { _ in [10, 13, 65, 1, 2][Int.random(in: 0..<5, using: &random)] }
  }

  @Test(arguments: kinds.indices)
  func `The frames that are found are those that reads would get`(kind: Int) {
    let kind = Self.kinds[kind]
    var random = SeededRandom(seed: 1)
    for _ in 0..<2_000 {
      let bytes = Self.someBytes(Int.random(in: 0...30, using: &random), &random)
      let limit = Int.random(in: 1...6, using: &random)
      var driver = ReadDriver()
      driver.receive(bytes)
      let found = driver.ahead(kind, atMost: limit)
      #expect(driver.buffered == bytes)
      for (index, element) in (found?.elements ?? []).enumerated() {
        driver.admit(kind, index)
        #expect(driver.results.last == .bytes(element))
        #expect(bytes.count - driver.buffered.count == found?.ends[index])
        #expect(!driver.queue.arrived.dropsLineFeed)
      }
      // If fewer were found than asked for, there is no further one, or it is a line whose line feed may still come.
      guard found?.ends.count ?? 0 < limit else { continue }
      let known = driver.finished.count
      driver.admit(kind, limit)
      if driver.finished.count > known, case .bytes? = driver.results.last {
        #expect(driver.queue.arrived.dropsLineFeed)
      }
    }
  }

  @Test func `Text that is not UTF-8 and elements far ahead are left to reads`() {
    var driver = ReadDriver()
    driver.receive([65, 10, 66, 10, 0xff, 10, 67, 10])
    #expect(driver.ahead(.line(.lf, maximumLength: 9), atMost: 9)?.elements == [[65], [66]])
    driver = ReadDriver()
    driver.receive([UInt8](repeating: 0, count: 200_000))
    #expect(driver.ahead(.exactly(1_000), atMost: 256)?.ends.last == 65_000)
    #expect(driver.ahead(.exactly(65_537), atMost: 256) == nil)
  }

  /// Whatever is mixed with the loop, it and all others get what they would get if the loop made a read for each element.
  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `A loop that looks ahead gets what one with a read for each element gets`(seed: UInt64) {
    var sometimesTaken = 0
    for round in 0..<100 as Range<UInt64> {
      var random = SeededRandom(seed: seed * 1000 + round)
      let kind = Self.kinds.randomElement(using: &random) ?? .exactly(1)
      var drivers = [ReadDriver(), ReadDriver()]
      var loops = [true, false].map { Loop(kind: kind, executor: executor, looksAhead: $0) }
      var got: [[ReadDriver.Finished]] = [[], []]
      var known = [0, 0]
      var waits = false
      func collect(_ index: Int, loop: Int?) {
        for finished in drivers[index].finished[known[index]...] {
          got[index].append(finished)
          if finished.tag != loop { continue }
          waits = false
          if case .bytes = finished.result { loops[index].lookAhead(&drivers[index]) }
        }
        known[index] = drivers[index].finished.count
      }
      var loopTag = -1
      for tag in 0..<120 {
        let action = Int.random(in: 0..<20, using: &random)
        let bytes = Self.someBytes(Int.random(in: 1...20, using: &random), &random)
        let other = Self.kinds.randomElement(using: &random) ?? .exactly(1)
        let waited = waits
        if action < 11, !waited { (loopTag, waits) = (tag, true) }
        for index in drivers.indices {
          switch action {
          case 0..<11 where waited: break
          case 0..<11:
            if let element = loops[index].next(&drivers[index], tag) {
              got[index].append(.init(tag, .bytes(element)))
              waits = false
              sometimesTaken += 1
            }
          case 11..<15: if drivers[index].queue.ending == nil { drivers[index].receive(bytes) }
          case 15: drivers[index].admit(other, tag, isEnqueued: true)
          case 16: got[index].append(.init(tag, .bytes(drivers[index].queue.takeBuffered())))
          case 17: drivers[index].remove(loopTag)
          case 18: drivers[index].admit(.any(upTo: 3), tag)
          default: if tag > 100 { drivers[index].end() }
          }
          collect(index, loop: loopTag)
        }
        if action == 17 { waits = false }
        if tag == 118 { for index in drivers.indices { drivers[index].refuse(.closed) } }
        if got[0] != got[1] {
          Issue.record("seed \(seed), round \(round), \(kind): \(got[0].suffix(5)) instead of \(got[1].suffix(5))")
          return
        }
      }
      for index in drivers.indices { drivers[index].queue.reclaimLookahead() }
      if drivers[0].buffered != drivers[1].buffered {
        Issue.record("seed \(seed), round \(round): \(drivers[0].buffered) is left instead of \(drivers[1].buffered)")
        return
      }
    }
    #expect(sometimesTaken > 200)
  }

  @Test func `A loop that takes few of the elements looks less far ahead`() {
    var driver = ReadDriver()
    driver.receive([UInt8](repeating: 65, count: 1_000))
    driver.queue.lookaheadLimit = LookaheadLimit(8)
    var loop = Loop(kind: .exactly(1, orEnd: true), executor: executor, looksAhead: true)
    var offered: [Int?] = []
    for count in [8, 3, 3, 0, 1] {
      _ = loop.next(&driver, 0)
      loop.lookAhead(&driver)
      offered.append(loop.lookahead?.count)
      for _ in 0..<count { _ = loop.lookahead?.take() }
      driver.queue.reclaimLookahead()
      loop.lookahead = nil
    }
    #expect(offered == [8, 16, 3, 6, nil])
    #expect(driver.buffered.count == 1_000 - 5 - (8 + 3 + 3))
  }

  @Test func `While a read waits, or all reads fail, no loop looks ahead`() {
    var driver = ReadDriver()
    #expect(driver.queue.mayLookAhead() == nil)
    driver.receive([1, 2])
    #expect(driver.queue.mayLookAhead() == 1)
    driver.admit(.exactly(3), 1)
    #expect(driver.queue.mayLookAhead() == nil)
    driver.remove(1)
    #expect(driver.queue.mayLookAhead() == 1)
    driver.refuse(.closed)
    #expect(driver.queue.mayLookAhead() == nil)
    #expect(driver.queue.takeBuffered() == [1, 2])
  }
}
