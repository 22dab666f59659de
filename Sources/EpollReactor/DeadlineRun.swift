/// A deadline in a run or in the heap of a `DeadlineQueue`.
struct ArmedDeadline {
  let time: Int64
  let serial: UInt64
  let slot: Int

  func comesBefore(_ other: ArmedDeadline) -> Bool {
    time != other.time ? time < other.time : serial < other.serial
  }
}

/// Deadlines that came in their order: each one is appended, and the first is taken. One that is removed from the middle stays, as a
/// gap, until it is the first or gaps are more than half of the storage. So appending and removing take constant time.
///
/// Invariants, whenever the queue that owns the run returns:
/// - The elements from `head` on are in order, and the element at `head` is no gap.
/// - `lastTime` is the time of the last element, `Int64.min` while the run is empty.
struct DeadlineRun {
  private static let mostCapacityKept = 1024

  private var elements: [ArmedDeadline] = []
  private var head = 0
  private var gaps = 0
  private(set) var lastTime: Int64 = .min

  var first: ArmedDeadline? { head < elements.count ? elements[head] : nil }
  var capacity: Int { elements.capacity }
  /// Whether more than half of the storage is not needed. Small storage does not matter.
  var isSparse: Bool { head + gaps > 64 && 2 * (head + gaps) > elements.count }

  mutating func append(_ element: ArmedDeadline) {
    assert(element.time >= lastTime, "a deadline is appended after a later one")
    lastTime = element.time
    elements.append(element)
  }

  mutating func removeFirst() {
    head += 1
    if head < elements.count { return }
    assert(gaps == 0, "gaps are counted that are not there")
    elements.removeAll(keepingCapacity: elements.capacity <= Self.mostCapacityKept)
    head = 0
    lastTime = .min
  }

  mutating func removeFirstGap() {
    gaps -= 1
    removeFirst()
  }

  /// An element has been removed, and is a gap from now on.
  mutating func addGap() { gaps += 1 }

  mutating func removeGaps(where isGap: (ArmedDeadline) -> Bool) {
    elements.removeFirst(head)
    if gaps > 0 { elements.removeAll(where: isGap) }
    lastTime = elements.last?.time ?? .min
    head = 0
    gaps = 0
  }
}
