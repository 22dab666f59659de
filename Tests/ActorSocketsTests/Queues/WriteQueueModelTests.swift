import TestSupport
import Testing

@testable import ActorSockets

/// The write queue in the plainest way: an array of writes, and how much of each is sent.
private struct WriteModel {
  struct Entry {
    var tag: Int
    var isWaited = true
    var bytes: [UInt8]
    var sent = 0
    var sentBefore = 0
    var isFinish = false
  }

  var entries: [Entry] = []
  var isRefused = false
  var isOpen = false
  var finished: [WriteDriver.Finished] = []
  var taken: [UInt8] = []

  var unsent: [UInt8] {
    Array(entries.prefix { !$0.isFinish }.map { $0.bytes.dropFirst($0.sent) }.joined())
  }
  var queuedBytes: Int { entries.reduce(0) { $0 + $1.bytes.count - $1.sent } }

  mutating func send(_ count: Int) {
    var rest = count
    for index in entries.indices where rest > 0 {
      let part = entries[index].bytes.dropFirst(entries[index].sent).prefix(rest)
      taken += part
      entries[index].sent += part.count
      rest -= part.count
    }
  }

  mutating func remove(_ tag: Int) -> Int? {
    guard let index = entries.firstIndex(where: { $0.tag == tag && $0.isWaited }) else { return nil }
    let entry = entries[index]
    entries[index].isWaited = false
    if entry.sent + entry.sentBefore == 0, !entry.isFinish { entries.remove(at: index) }
    return entry.sent + entry.sentBefore
  }

  mutating func abandon(_ tag: Int) -> Bool {
    guard let index = entries.firstIndex(where: { $0.tag == tag && $0.isWaited }) else { return false }
    entries[index].isWaited = false
    return true
  }

  mutating func settle() {
    while let first = entries.first, isRefused || isOpen {
      let isWhole = first.sent == first.bytes.count
      let hasSucceeded = isRefused ? isWhole && first.sent + first.sentBefore > 0 : isWhole
      if !hasSucceeded, !isRefused { return }
      let tag = first.isWaited ? first.tag : nil
      finished.append(.init(tag, failedAfter: hasSucceeded ? nil : first.sent + first.sentBefore))
      entries.removeFirst()
    }
  }
}

@Suite(.tags(.pure)) struct WriteQueueModelTests {
  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `Whatever happens, the queue does what its model does, and each write leaves once`(seed: UInt64) {
    for round in 0..<8 as Range<UInt64> {
      var random = SeededRandom(seed: seed * 1000 + round)
      func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
      var driver = WriteDriver(isOpen: false)
      driver.maximumPieces = [1, 2, 3, 64][pick(4)]
      driver.maximumBytes = [1, 10, 1000][pick(3)]
      var model = WriteModel()
      var removed = 0
      var nextTag = 0
      var next: UInt8 = 0

      func admit() {
        if driver.queue.isFinishing || model.entries.count > 12 { return }
        nextTag += 1
        let pieces = (0..<pick(5)).map { _ in
          (0..<pick(6)).map { _ in
            next &+= 1
            return next
          }
        }
        let sentBefore = pick(6) == 0 && model.isOpen ? 1 + pick(4) : 0
        driver.admit(pieces, nextTag, alreadySent: sentBefore)
        model.entries.append(.init(tag: nextTag, bytes: Array(pieces.joined()), sentBefore: sentBefore))
      }

      func change(_ index: Int) {
        switch pick(20) {
        case 0..<8:
          admit()
        case 8..<13:
          driver.pump()
          model.settle()
          guard case .send = driver.queue.step() else { return }
          let shown = driver.shown
          let before = driver.taken.count
          driver.pump([pick(shown.count + 1)])
          model.send(driver.taken.count - before)
        case 13 where model.isOpen:
          // Buffered bytes are a write that no call waits for.
          let count = 1 + pick(5)
          let mayBuffer = !driver.queue.isFinishing && !driver.queue.isRefusing && model.entries.isEmpty
          if !mayBuffer { return }
          for _ in 0...pick(3) {
            let bytes = (0..<count).map { _ in
              next &+= 1
              return next
            }
            if !driver.queue.canBuffer(count) { Issue.record("seed \(seed): no bytes can be buffered") }
            driver.queue.buffer(bytes)
            if model.entries.isEmpty { model.entries.append(.init(tag: 0, isWaited: false, bytes: [])) }
            model.entries[0].bytes += bytes
          }
          if pick(2) == 0 { return }
          // All or a part of them is sent without entering the queue.
          let all = driver.queue.buffered
          let sent = pick(2) == 0 ? all.count : pick(all.count + 1)
          let isDone = sent == all.count && pick(2) == 0
          driver.sendBuffered(sent, isDone: isDone)
          model.send(sent)
          if isDone { model.entries.removeFirst() }
        case 14:
          let tag = 1 + pick(max(1, nextTag))
          let isGone = driver.abandon(tag)
          if isGone != model.abandon(tag) { Issue.record("seed \(seed): \(tag) was abandoned differently") }
          if isGone { removed += 1 }
        case 16 where pick(2) == 0:
          // To the queue it is a write without bytes, also behind a half-close.
          nextTag += 1
          driver.flush(nextTag)
          model.entries.append(.init(tag: nextTag, bytes: []))
        case 15, 16:
          let tag = 1 + pick(max(1, nextTag))
          let sent = driver.remove(tag)
          if sent != model.remove(tag) { Issue.record("seed \(seed): \(tag) was taken back differently") }
          if sent != nil { removed += 1 }
        case 17 where index > 100 && !driver.queue.isFinishing:
          nextTag += 1
          driver.finishWriting(nextTag)
          model.entries.append(.init(tag: nextTag, bytes: [], isFinish: true))
        case 18 where index > 5:
          driver.queue.open()
          model.isOpen = true
        case 19 where index > 140:
          driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
          model.isRefused = true
        default: break
        }
      }

      for index in 0..<160 {
        change(index)
        driver.pump()
        model.settle()
        let shown = driver.shown
        let agrees =
          driver.finished == model.finished && driver.taken == model.taken && !driver.neverRests
          && driver.queue.queuedBytes == model.queuedBytes && driver.queue.count == model.entries.count
          && model.unsent.starts(with: shown) && driver.shownPieces.count <= driver.maximumPieces
        if !agrees {
          Issue.record(
            """
            seed \(seed), round \(round), event \(index): \(driver.finished.suffix(3)) \(driver.queue.queuedBytes) \
            shown \(shown)
            model: \(model.finished.suffix(3)) \(model.queuedBytes) unsent \(model.unsent)
            """)
          return
        }
      }
      let left = driver.finished.compactMap(\.tag)
      if left.count + removed + model.entries.filter(\.isWaited).count != nextTag || Set(left).count != left.count {
        Issue.record("seed \(seed), round \(round): of \(nextTag) writes left \(left), \(removed) were taken back")
        return
      }
    }
  }
}
