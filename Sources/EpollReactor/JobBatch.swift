/// Jobs that a loop runs in their order. Those that an iteration leaves come first in the next.
struct JobBatch {
  private var items: [JobQueue.Item] = []
  private var next = 0

  /// Kept after a burst.
  static let keptCapacity = 16_384

  var isUsedUp: Bool { next == items.count }
  var left: Int { items.count - next }

  mutating func add(_ item: consuming JobQueue.Item) {
    // If jobs are always left, the array would grow without end.
    if next >= 1024, next >= left {
      items.removeSubrange(..<next)
      next = 0
    }
    items.append(item)
  }

  mutating func refill(from queue: JobQueue) {
    assert(isUsedUp)
    clear()
    queue.take(into: &items)
  }

  mutating func clear() {
    next = 0
    items.removeAll(keepingCapacity: items.capacity <= Self.keptCapacity)
  }

  mutating func take(_ isWanted: (JobQueue.Item) -> Bool) -> [JobQueue.Item] {
    let left = items[next...]
    clear()
    items = left.filter { !isWanted($0) }
    return left.filter(isWanted)
  }

  mutating func takeNext() -> JobQueue.Item {
    var item = JobQueue.Item.call({}, of: nil)
    swap(&item, &items[next])
    next += 1
    return item
  }
}
