/// Deadlines ordered by time, of which any can be removed.
///
/// Most deadlines are a time from now that many others have too, so each is later than the ones armed before it with the same timeout. Such
/// deadlines are in a few runs, in which arming and removing take constant time. The others are in a binary heap.
///
/// A deadline is appended to the first run whose last deadline is not later. So timeouts of four lengths need four runs at most, and one
/// timer of an hour does not spoil the run for timeouts of five seconds: these begin another one.
///
/// Invariants:
/// - Of equal times, the deadline that was inserted or moved first comes first.
/// - Every armed deadline has one slot. The slot knows its position in the heap, or its run.
/// - A key is a slot and a serial number. Serial numbers are never used again, so the key of a removed deadline finds nothing. In a run,
///   an element whose slot has another serial number has been removed.
/// - A removed deadline keeps nothing but its element of a run, and not more of these stay than deadlines are armed, and 64 for each
///   run. The storage of a large queue is released when its last deadline leaves.
package struct DeadlineQueue<Payload> {
  package struct Key: Hashable, Sendable {
    fileprivate let serial: UInt64
    fileprivate let slot: UInt32
  }

  private struct Slot {
    /// That of the key; 0 if no deadline has this slot.
    var serial: UInt64
    var place: Place
    var payload: Payload?
  }

  /// Where a deadline is: its position in the heap, or the number of its run.
  private enum Place {
    case heap(Int)
    case run(Int)
  }

  private static var runCount: Int { 4 }

  private var runs = Array(repeating: DeadlineRun(), count: runCount)
  private(set) var heap: [ArmedDeadline] = []
  private var slots: [Slot] = []
  private var freeSlots: [Int] = []
  private var nextSerial: UInt64 = 0
  package private(set) var count = 0

  package init() {}

  package var earliest: Int64? { first?.element.time }
  package var capacity: Int { max(heap.capacity, slots.capacity, runs.map(\.capacity).max() ?? 0) }

  package mutating func insert(at time: Int64, _ payload: Payload) -> Key {
    let run = run(for: time)
    let element = ArmedDeadline(time: time, serial: takeSerial(), slot: freeSlots.popLast() ?? slots.count)
    let slot = Slot(serial: element.serial, place: run.map { .run($0) } ?? .heap(heap.count), payload: payload)
    if element.slot == slots.count { slots.append(slot) } else { slots[element.slot] = slot }
    if let run { runs[run].append(element) } else { insertIntoHeap(element) }
    count += 1
    return Key(serial: element.serial, slot: UInt32(element.slot))
  }

  @discardableResult
  package mutating func remove(_ key: Key) -> Payload? {
    let slot = Int(key.slot)
    guard slot < slots.count, slots[slot].serial == key.serial else { return nil }
    switch slots[slot].place {
    case .heap(let position): removeFromHeap(at: position)
    case .run(let run):
      slots[slot].serial = 0
      runs[run].addGap()
      removeGaps(of: run)
    }
    return release(slot)
  }

  package mutating func popDue(at now: Int64) -> Payload? {
    guard let first, first.element.time <= now else { return nil }
    removeFirst(of: first.run)
    return release(first.element.slot)
  }

  package func firstDue(at now: Int64) -> Payload? {
    guard let element = first?.element, element.time <= now else { return nil }
    return slots[element.slot].payload
  }

  /// Of equal times, the moved deadline comes last. Its key stays valid.
  package mutating func moveFirst(to time: Int64, _ payload: Payload) {
    guard let first else { return }
    removeFirst(of: first.run)
    slots[first.element.slot].payload = payload
    // Not into a run, where the serial number must be that of the key.
    insertIntoHeap(ArmedDeadline(time: time, serial: takeSerial(), slot: first.element.slot))
  }

  private var first: (element: ArmedDeadline, run: Int?)? {
    var first: (element: ArmedDeadline, run: Int?)? = heap.first.map { ($0, nil) }
    for run in 0..<Self.runCount {
      guard let element = runs[run].first else { continue }
      if let earlier = first?.element, earlier.comesBefore(element) { continue }
      first = (element, run)
    }
    return first
  }

  private mutating func takeSerial() -> UInt64 {
    nextSerial += 1
    return nextSerial
  }

  /// Comes after all other changes, because it may release the storage.
  private mutating func release(_ slot: Int) -> Payload? {
    let payload = slots[slot].payload.take()
    slots[slot].serial = 0
    freeSlots.append(slot)
    count -= 1
    if count == 0, slots.capacity > 1024 {
      let serial = nextSerial
      self = DeadlineQueue()
      nextSerial = serial
    }
    return payload
  }

  /// `nil` is the heap.
  private mutating func removeFirst(of run: Int?) {
    guard let run else { return removeFromHeap(at: 0) }
    runs[run].removeFirst()
    removeGaps(of: run)
  }

  // MARK: - Runs

  /// An empty run's last time is earlier than all.
  private func run(for time: Int64) -> Int? { (0..<Self.runCount).first { runs[$0].lastTime <= time } }

  private mutating func removeGaps(of run: Int) {
    while let first = runs[run].first, slots[first.slot].serial != first.serial { runs[run].removeFirstGap() }
    guard runs[run].isSparse else { return }
    let slots = slots
    runs[run].removeGaps { slots[$0.slot].serial != $0.serial }
  }

  // MARK: - Heap

  private mutating func insertIntoHeap(_ element: ArmedDeadline) {
    heap.append(element)
    siftUp(heap.count - 1)
  }

  private mutating func removeFromHeap(at position: Int) {
    let last = heap.removeLast()
    if position < heap.count {
      put(last, at: position)
      siftUp(position)
      siftDown(position)
    }
  }

  private mutating func put(_ element: ArmedDeadline, at position: Int) {
    heap[position] = element
    slots[element.slot].place = .heap(position)
  }

  private mutating func siftUp(_ start: Int) {
    var position = start
    let element = heap[position]
    while position > 0 {
      let parent = (position - 1) / 2
      if heap[parent].comesBefore(element) { break }
      put(heap[parent], at: position)
      position = parent
    }
    put(element, at: position)
    assertOrder(at: position)
  }

  private mutating func siftDown(_ start: Int) {
    var position = start
    let element = heap[position]
    while true {
      var child = 2 * position + 1
      if child >= heap.count { break }
      if child + 1 < heap.count, heap[child + 1].comesBefore(heap[child]) { child += 1 }
      if element.comesBefore(heap[child]) { break }
      put(heap[child], at: position)
      position = child
    }
    put(element, at: position)
    assertOrder(at: position)
  }

  @inline(__always)
  private func assertOrder(at position: Int) {
    assert(slots[heap[position].slot].payload != nil, "a deadline has no payload")
    assert(position == 0 || !heap[position].comesBefore(heap[(position - 1) / 2]), "a deadline is behind a later one")
  }
}
