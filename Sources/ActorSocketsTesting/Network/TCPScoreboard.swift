// What one end of a TCP connection has sent and not seen acknowledged, segment by segment: RFC 2018 (SACK) and RFC 8985 (RACK).
//
// Invariants:
// - The segments follow each other without a gap: each begins where the one before it ends. The first one has the oldest number.
// - `selected`, `lost` and `repeated` count the segments with these marks. A segment that the peer has is neither lost nor repeated.
// - A segment is lost if one that was sent long enough after it has arrived, or if the timer has fired.
// - No segment that is lost and not sent again begins before `firstLost`.

struct TCPScoreboard {
  struct Sent {
    var start: Int
    var end: Int
    /// When it was last sent, and the number of segments that were sent before that.
    var time: Int64
    var order: Int
    /// The peer has it, but not all before it.
    var isSelected = false
    var isLost = false
    /// It was sent again, and that one was not lost.
    var isRepeated = false
    /// It was sent more than once, so that an acknowledgement does not tell which of them it answers.
    var wasRepeated = false
  }

  /// What an acknowledgement has told.
  struct News {
    /// Segments that the peer is now known to have.
    var delivered = 0
    var acknowledged = 0
    var selected = 0
    var hasRepeated = false
    /// A segment that was sent only once, and not after `goal`, has arrived: so a timer that had fired was too early.
    var hasOriginal = false
    /// When the oldest and the newest of the acknowledged segments that were sent only once were sent; the oldest of the selected ones.
    var oldest: Int64?
    var newest: Int64?
    var oldestSelected: Int64?
    /// Bytes that came twice, as RFC 2883 reports them.
    var duplicate: Range<Int>?
  }

  private var all: [Sent] = []
  private var head = 0
  /// The segments in the order in which they were last sent. Entries of segments that are gone, or were sent again, are skipped.
  private var inOrder: [(start: Int, order: Int)] = []
  private var sentCount = 0
  private var orderHead = 0
  /// The shortest round trip of a segment that was sent once.
  private var shortest = Int64.max
  private(set) var selected = 0
  private(set) var lost = 0
  private(set) var repeated = 0
  private var firstLost = Int.max
  /// The blocks of the last acknowledgement that had any. All segments in them are selected.
  private var known: [Range<Int>] = []
  /// Of the segment that was sent last of those that have arrived.
  private var newest: (order: Int, roundTrip: Int64)?

  var segments: ArraySlice<Sent> { all[head...] }
  var count: Int { all.count - head }
  var inFlight: Int { count - selected - lost + repeated }
  var oldest: Sent? { segments.first }
  var last: Sent? { segments.last }
  /// The entries in memory, also those that are skipped.
  var keptEntries: Int { all.count + inOrder.count }

  // MARK: Segments of this end

  mutating func sent(_ range: Range<Int>, at now: Int64) {
    all.append(Sent(start: range.lowerBound, end: range.upperBound, time: now, order: sentCount))
    noteOrder(of: range.lowerBound)
  }

  private mutating func noteOrder(of start: Int) {
    inOrder.append((start, sentCount))
    sentCount += 1
  }

  /// The first segment that is lost and was not sent again.
  mutating func nextLost() -> Range<Int>? {
    if firstLost == .max { return nil }
    var index = position(of: firstLost)
    while index < all.count {
      if all[index].isLost, !all[index].isRepeated {
        firstLost = all[index].start
        return all[index].start..<all[index].end
      }
      index += 1
    }
    firstLost = .max
    return nil
  }

  /// Joins a segment with those after it that fit, before it is sent again. Returns its new range.
  mutating func join(_ range: Range<Int>, atMost size: Int) -> Range<Int> {
    let index = position(of: range.lowerBound)
    guard index < all.count, !all[index].isSelected, all[index].start > 0 else { return range }
    var next = index + 1
    while next < all.count, !all[next].isSelected, all[next].end - all[index].start <= size {
      unmark(all[next])
      all[index].end = all[next].end
      all[index].wasRepeated = all[index].wasRepeated || all[next].wasRepeated
      next += 1
    }
    all.removeSubrange((index + 1)..<next)
    return all[index].start..<all[index].end
  }

  mutating func sentAgain(_ range: Range<Int>, at now: Int64) {
    let index = position(of: range.lowerBound)
    guard index < all.count else { return }
    if !all[index].isRepeated {
      all[index].isRepeated = true
      repeated += 1
    }
    all[index].wasRepeated = true
    all[index].time = now
    all[index].order = sentCount
    noteOrder(of: all[index].start)
  }

  // MARK: What the peer has

  /// The peer has everything before `number`, and the bytes of `blocks`.
  mutating func acknowledged(_ number: Int, _ blocks: [Range<Int>], goal: Int, at now: Int64) -> News {
    var news = News()
    select(blocks, number, goal: goal, &news, at: now)
    while head < all.count, all[head].start < number {
      if all[head].end > number {
        all[head].start = number
        known = []
        break
      }
      take(all[head], goal: goal, &news, at: now)
      head += 1
    }
    forget(before: number)
    return news
  }

  private mutating func take(_ sent: Sent, goal: Int, _ news: inout News, at now: Int64) {
    news.acknowledged += 1
    unmark(sent)
    if sent.wasRepeated {
      news.hasRepeated = true
    } else if !sent.isSelected {
      if news.oldest == nil { news.oldest = sent.time }
      news.newest = sent.time
      if sent.end <= goal { news.hasOriginal = true }
    }
    if sent.isSelected {
      selected -= 1
    } else {
      news.delivered += 1
      arrived(sent, at: now)
    }
  }

  private mutating func select(
    _ blocks: [Range<Int>], _ number: Int, goal: Int, _ news: inout News, at now: Int64
  ) {
    var seen: [Range<Int>] = []
    for (place, block) in blocks.enumerated() {
      let isInside =
        blocks.count > 1 && blocks[1].contains(block.lowerBound) && blocks[1].upperBound >= block.upperBound
      if place == 0, block.upperBound <= number || isInside {
        news.duplicate = block
        continue
      }
      var index = position(of: block.lowerBound)
      while index < all.count, all[index].end <= block.upperBound {
        // Most of a block was in the last one. To look at all of it each time would take quadratic time.
        if let old = known.first(where: { $0.contains(all[index]) }) {
          index = position(of: old.upperBound)
          continue
        }
        if !all[index].isSelected, all[index].start >= block.lowerBound { mark(index, goal: goal, &news, at: now) }
        index += 1
      }
      if block.upperBound <= all.last?.end ?? 0 { seen.append(block) }
    }
    if !seen.isEmpty { known = seen }
  }

  private mutating func mark(_ index: Int, goal: Int, _ news: inout News, at now: Int64) {
    let sent = all[index]
    unmark(sent)
    all[index].isLost = false
    all[index].isRepeated = false
    all[index].isSelected = true
    selected += 1
    news.selected += 1
    news.delivered += 1
    arrived(sent, at: now)
    if sent.wasRepeated { return }
    if sent.end <= goal { news.hasOriginal = true }
    news.oldestSelected = min(news.oldestSelected ?? sent.time, sent.time)
  }

  private mutating func unmark(_ sent: Sent) {
    if sent.isLost { lost -= 1 }
    if sent.isRepeated { repeated -= 1 }
  }

  private mutating func arrived(_ sent: Sent, at now: Int64) {
    let time = now - sent.time
    // So soon after it was sent again, the peer has got the first one.
    if sent.wasRepeated, time < shortest { return }
    if !sent.wasRepeated { shortest = min(shortest, time) }
    if sent.order > newest?.order ?? -1 { newest = (sent.order, time) }
  }

  private mutating func forget(before number: Int) {
    // The first segment may have begun earlier.
    let first = oldest?.order
    while orderHead < inOrder.count, inOrder[orderHead].start < number, inOrder[orderHead].order != first {
      orderHead += 1
    }
    all.dropBeginning(&head)
    inOrder.dropBeginning(&orderHead)
  }

  /// The index of the first segment that ends after `number`.
  private func position(of number: Int) -> Int {
    var (low, high) = (head, all.count)
    while low < high {
      let middle = (low + high) / 2
      if all[middle].end > number { high = middle } else { low = middle + 1 }
    }
    return low
  }

  // MARK: Losses

  private mutating func lose(_ index: Int) {
    if all[index].isRepeated {
      all[index].isRepeated = false
      repeated -= 1
    }
    if !all[index].isLost {
      all[index].isLost = true
      lost += 1
    }
    firstLost = min(firstLost, all[index].start)
  }

  /// Finds the segments that are lost because later ones have arrived. Returns how long to wait for others; `nil` if there are no others.
  mutating func findLosses(patience: Int64, at now: Int64) -> Int64? {
    guard let newest else { return nil }
    var longest: Int64?
    var next = orderHead
    while next < inOrder.count {
      let entry = inOrder[next]
      let index = position(of: entry.start)
      let isCurrent = index < all.count && all[index].order == entry.order && !all[index].isSelected
      if isCurrent, !all[index].isLost || all[index].isRepeated {
        if entry.order >= newest.order { break }
        let rest = newest.roundTrip + patience - (now - all[index].time)
        if rest > 0 {
          longest = max(longest ?? 0, rest)
          next += 1
          continue
        }
        lose(index)
      }
      // It is not needed any more. Those that still count keep their order.
      if next == orderHead { orderHead += 1 }
      next += 1
    }
    return longest
  }

  /// The timer has fired: everything is lost that the peer does not have, but what was sent just now.
  mutating func loseAll(at now: Int64) {
    // A peer that has the oldest segment and does not acknowledge it has dropped what it had: RFC 2018, section 8.
    let hasReneged = oldest?.isSelected ?? false
    for index in segments.indices {
      if all[index].isSelected {
        if !hasReneged { continue }
        all[index].isSelected = false
        selected -= 1
        known = []
      }
      if index > head, !hasReneged, now - all[index].time < newest?.roundTrip ?? 0 { continue }
      lose(index)
    }
  }

  /// No segment is lost after all.
  mutating func clearLosses() {
    for index in segments.indices { all[index].isLost = false }
    lost = 0
    firstLost = .max
  }

  mutating func removeAll() { self = TCPScoreboard() }
}

extension Array {
  /// Removes the elements before `head` if they are all, or many and at least half. So each element is moved once on average, and an idle
  /// connection has no old ones.
  fileprivate mutating func dropBeginning(_ head: inout Int) {
    if head == count {
      removeAll(keepingCapacity: count < 1_024)
    } else if head >= 1_024, 2 * head >= count {
      removeSubrange(..<head)
    } else {
      return
    }
    head = 0
  }
}

extension Range<Int> {
  fileprivate func contains(_ sent: TCPScoreboard.Sent) -> Bool { lowerBound <= sent.start && sent.end <= upperBound }
}
