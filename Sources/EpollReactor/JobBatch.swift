/// The jobs that a loop has taken from its queue. Those that an iteration leaves come first in the next.
struct JobBatch {
  private var items: [JobQueue.Item] = []
  /// The first item that has not run.
  private var next = 0

  /// The capacity that is kept after a burst.
  static let keptCapacity = 16_384

  /// Whether no item is left.
  var isUsedUp: Bool { next == items.count }

  /// Takes what waits in the queue. All items of the batch must have run.
  mutating func refill(from queue: JobQueue) {
    assert(isUsedUp)
    clear()
    queue.take(into: &items)
  }

  /// Forgets the items that have run.
  mutating func clear() {
    next = 0
    items.removeAll(keepingCapacity: items.capacity <= Self.keptCapacity)
  }

  /// Takes the next item, of which there must be one.
  mutating func takeNext() -> JobQueue.Item {
    var item = JobQueue.Item.call({}, of: nil)
    swap(&item, &items[next])
    next += 1
    return item
  }
}
