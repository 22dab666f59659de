import TestSupport
import Testing

@testable import ActorSockets

/// The read queue in the plainest way: arrays, and the naive outcomes.
private struct ReadModel {
  struct Entry {
    var tag: Int
    var kind: ReadKind
    var isEnqueued: Bool
    var isBegun = false
    var isBorrowing = false
    var isLentEarly = false
  }

  var buffer: [UInt8] = []
  var ending: NaiveOutcome.Ending?
  var isOpen = false
  var refusal: SocketError.Code?
  var entries: [Entry] = []
  var dropsLineFeed = false
  var begun: [Int] = []
  var finished: [ReadDriver.Finished] = []
  private var failedByPredecessor: [Int] = []

  mutating func receive(_ bytes: [UInt8]) {
    buffer += dropsLineFeed && bytes.first == 10 ? Array(bytes.dropFirst()) : bytes
    if !bytes.isEmpty { dropsLineFeed = false }
  }

  mutating func remove(_ tag: Int) -> Bool {
    guard let index = entries.firstIndex(where: { $0.tag == tag }), !entries[index].isBorrowing else { return false }
    entries.remove(at: index)
    failEnqueued(from: index)
    return true
  }

  mutating func takeBuffered() -> [UInt8] {
    if entries.first?.isBorrowing == true { return [] }
    defer { buffer = [] }
    if case .borrow? = entries.first?.kind { entries[0].kind = .borrow(moreThan: 0) }
    return buffer
  }

  mutating func lendEarly(_ tag: Int) -> Bool {
    guard !dropsLineFeed, entries.first?.tag == tag, case .borrow(moreThan: 0)? = entries.first?.kind else {
      return false
    }
    entries[0].isLentEarly = true
    return true
  }

  mutating func endBorrow(consumed: Int, waitingForMoreThan seen: Int?, failed: Bool) {
    buffer.removeFirst(consumed)
    if let seen {
      entries[0].kind = .borrow(moreThan: seen)
      entries[0].isBorrowing = false
      entries[0].isLentEarly = false
    } else {
      entries.removeFirst()
      if failed { failEnqueued(from: 0) }
    }
  }

  private mutating func failEnqueued(from index: Int) {
    failedByPredecessor += entries[index...].filter(\.isEnqueued).map(\.tag)
    entries = entries[..<index] + entries[index...].filter { !$0.isEnqueued }
  }

  mutating func settle() {
    while true {
      for tag in failedByPredecessor { finished.append(.init(tag, .failed(.precedingReadFailed))) }
      failedByPredecessor = []
      guard let first = entries.first, !first.isBorrowing else { return }
      if let refusal {
        finished.append(.init(entries.removeFirst().tag, .failed(refusal)))
        continue
      }
      if !isOpen { return }
      if !first.isBegun {
        entries[0].isBegun = true
        begun.append(first.tag)
      }
      let early = first.isLentEarly ? NaiveOutcome(result: .borrow) : nil
      guard let outcome = early ?? NaiveOutcome.of(first.kind, buffer[...], ending) else { return }
      finished.append(.init(first.tag, outcome.result))
      buffer.removeFirst(outcome.consumed)
      if outcome.dropsLineFeed { dropsLineFeed = true }
      if outcome.result == .borrow {
        entries[0].isBorrowing = true
        return
      }
      entries.removeFirst()
      if case .failed = outcome.result { failEnqueued(from: 0) }
    }
  }
}

private struct ReadPair {
  var driver = ReadDriver(isOpen: false)
  var model = ReadModel()
  var random: SeededRandom
  var nextTag = 0
  /// Removed by the owner: tags that left without a `.finish`.
  var removed: [Int] = []
  var ended: [Int] = []
  var log: [String] = []

  mutating func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

  mutating func step() {
    switch pick(100) {
    case 0..<35: receive()
    case 35..<62: admit()
    case 62..<64: open()
    case 64..<74: remove()
    case 74..<88: endBorrow()
    case 88..<94: lendEarly()
    case 94..<96:
      let taken = driver.queue.takeBuffered()
      log.append("take \(taken)")
      if taken != model.takeBuffered() { Issue.record("other bytes were taken: \(taken)") }
    default: break
    }
    driver.pump()
    model.settle()
  }

  private mutating func receive() {
    if driver.queue.ending != nil { return }
    let alphabet: [UInt8] = [97, 98, 10, 13, 0, 1, 2]
    let bytes = (0..<pick(9)).map { _ in alphabet[pick(7)] }
    log.append("receive \(bytes)")
    switch pick(3) {
    case 0:
      driver.queue.received(bytes.span)
    case 1 where !bytes.isEmpty && driver.takesAny && driver.finishAny(bytes):
      break
    default:
      var lent = driver.queue.lendBuffer()
      lent.append(bytes.span)
      driver.queue.giveBack(lent)
    }
    model.receive(bytes)
  }

  private mutating func admit() {
    if model.entries.count > 8 { return }
    nextTag += 1
    var kind = ReadKind.random(&random)
    switch pick(8) {
    case 0: kind = .any(upTo: 1 + pick(5))
    case 1: kind = .peek(upTo: 1 + pick(5))
    case 2, 3: kind = .borrow(moreThan: 0)
    case 4: kind = .exactly(pick(4), orEnd: pick(2) == 0)
    case 5 where pick(3) == 0: kind = .toEnd(maximumLength: pick(30))
    default: break
    }
    var isEnqueued = pick(2) == 0
    if case .borrow = kind { isEnqueued = false }
    log.append("admit \(nextTag) \(kind) \(isEnqueued)")
    driver.ids[nextTag] = driver.queue.admit(kind, isEnqueued: isEnqueued, nextTag)
    model.entries.append(.init(tag: nextTag, kind: kind, isEnqueued: isEnqueued))
  }

  private mutating func open() {
    log.append("open")
    driver.queue.open()
    model.isOpen = true
  }

  private mutating func remove() {
    // Any read that ever was: those gone already must not be found.
    let tag = 1 + pick(max(1, nextTag))
    let recent = pick(3) > 0 ? model.entries.isEmpty ? tag : model.entries[pick(model.entries.count)].tag : tag
    guard let id = driver.ids[recent] else { return }
    log.append("remove \(recent)")
    let entry = driver.queue.remove(id)
    if let entry { removed.append(entry.tag) }
    if (entry != nil) != model.remove(recent) { Issue.record("\(recent) was found in one queue only") }
  }

  private mutating func lendEarly() {
    guard let first = model.entries.first, let id = driver.ids[first.tag], !first.isBorrowing, model.isOpen else {
      return
    }
    log.append("lend early \(first.tag)")
    if driver.queue.lendEarly(id) != model.lendEarly(first.tag) {
      Issue.record("only one queue lent the buffer early")
    }
  }

  private mutating func endBorrow() {
    guard let first = model.entries.first, first.isBorrowing, let id = driver.ids[first.tag] else { return }
    let waits = pick(3) == 0 && model.ending == nil
    let consumed = waits ? 0 : pick(model.buffer.count + 1)
    let failed = pick(4) == 0
    let seen = waits ? model.buffer.count : nil
    log.append("endBorrow \(first.tag) \(consumed) \(waits) \(failed)")
    let tag = driver.queue.endBorrow(id, consumed: consumed, waitingForMoreThan: seen, failed: failed)
    if tag != (waits ? nil : first.tag) { Issue.record("the borrow of \(first.tag) ended as \(tag ?? -1)") }
    if !waits { ended.append(first.tag) }
    model.endBorrow(consumed: consumed, waitingForMoreThan: seen, failed: failed)
  }

  mutating func end() {
    log.append("end")
    if pick(2) == 0 {
      driver.queue.end(.endOfStream)
      model.ending = .clean
    } else {
      driver.queue.end(.failed(SocketError(.connectionReset, operation: "connection")))
      model.ending = .broken
    }
  }

  mutating func refuse() {
    log.append("refuse")
    driver.queue.refuse(SocketError(.closed, operation: "read"))
    model.refusal = .closed
  }

  var agree: Bool {
    driver.finished == model.finished && driver.begun == model.begun && driver.buffered == model.buffer
      && driver.queue.count == model.entries.count && driver.queue.first?.tag == model.entries.first?.tag
      && !driver.neverRests && (driver.wanted ?? 1) > 0
      && (driver.wanted != nil) == (model.isOpen && !model.entries.isEmpty && !model.entries[0].isBorrowing)
  }
}

@Suite(.tags(.pure)) struct ReadQueueModelTests {
  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `Whatever happens, the queue does what its model does, and each read leaves once`(seed: UInt64) {
    for round in 0..<10 as Range<UInt64> {
      var pair = ReadPair(random: SeededRandom(seed: seed * 1000 + round))
      for index in 0..<200 {
        if index == 150, round % 3 > 0 { pair.end() }
        if index == 180, round % 2 > 0 { pair.refuse() }
        pair.step()
        if !pair.agree {
          Issue.record(
            """
            seed \(seed), round \(round), after \(pair.log)
            \(pair.driver.finished.suffix(3)) \(pair.driver.begun.suffix(3)) \(pair.driver.buffered)
            model: \(pair.model.finished.suffix(3)) \(pair.model.begun.suffix(3)) \(pair.model.buffer)
            """)
          return
        }
      }
      let left = pair.driver.finished.filter { $0.result != .borrow }.map(\.tag) + pair.removed + pair.ended
      let waiting = pair.model.entries.map(\.tag)
      if (left + waiting).sorted() != Array(1..<pair.nextTag + 1) {
        Issue.record("seed \(seed), round \(round): of \(pair.nextTag) reads left \(left.sorted()), wait \(waiting)")
        return
      }
    }
  }
}
