/// Deadlines ordered by time: a binary heap in which each element knows its position.
///
/// Invariants:
/// - `heap[0]` is the earliest deadline. Of equal times, the one that was inserted or moved first comes first.
/// - Every armed deadline owns one slot, and `slots[heap[i].slot].position == i`.
/// - A key is a slot and a serial number. Serial numbers are never reused, so the key of a removed deadline finds nothing.
/// - A removed deadline leaves nothing behind. The storage of a large heap is released when its last deadline leaves.
///
/// Inserting with growing times costs O(1), removing O(log n).
package struct DeadlineHeap<Payload> {
  package struct Key: Hashable, Sendable {
    fileprivate let serial: UInt64
    fileprivate let slot: UInt32
  }

  private struct Element {
    let time: Int64
    let serial: UInt64
    let slot: Int

    func comesBefore(_ other: Element) -> Bool {
      time != other.time ? time < other.time : serial < other.serial
    }
  }

  private struct Slot {
    var serial: UInt64
    var position: Int
    var payload: Payload?
  }

  private var heap: [Element] = []
  private var slots: [Slot] = []
  private var freeSlots: [Int] = []
  private var nextSerial: UInt64 = 0

  package init() {}

  package var count: Int { heap.count }
  package var earliest: Int64? { heap.first?.time }
  package var capacity: Int { max(heap.capacity, slots.capacity) }

  package mutating func insert(at time: Int64, _ payload: Payload) -> Key {
    nextSerial += 1
    let slot: Int
    if let free = freeSlots.popLast() {
      slot = free
      slots[slot] = Slot(serial: nextSerial, position: heap.count, payload: payload)
    } else {
      slot = slots.count
      slots.append(Slot(serial: nextSerial, position: heap.count, payload: payload))
    }
    heap.append(Element(time: time, serial: nextSerial, slot: slot))
    siftUp(heap.count - 1)
    return Key(serial: nextSerial, slot: UInt32(slot))
  }

  @discardableResult
  package mutating func remove(_ key: Key) -> Payload? {
    let slot = Int(key.slot)
    guard slot < slots.count, slots[slot].serial == key.serial, slots[slot].payload != nil else { return nil }
    return remove(at: slots[slot].position)
  }

  package mutating func popDue(at now: Int64) -> Payload? {
    firstDue(at: now) == nil ? nil : remove(at: 0)
  }

  package func firstDue(at now: Int64) -> Payload? {
    guard let first = heap.first, first.time <= now else { return nil }
    return slots[first.slot].payload
  }

  /// Of equal times, the moved deadline comes last. Its key stays valid.
  package mutating func moveFirst(to time: Int64, _ payload: Payload) {
    guard let first = heap.first else { return }
    slots[first.slot].payload = payload
    nextSerial += 1
    put(Element(time: time, serial: nextSerial, slot: first.slot), at: 0)
    siftDown(0)
  }

  private mutating func remove(at position: Int) -> Payload? {
    let slot = heap[position].slot
    let payload = slots[slot].payload.take()
    freeSlots.append(slot)
    let last = heap.removeLast()
    if position < heap.count {
      put(last, at: position)
      siftUp(position)
      siftDown(position)
    }
    if heap.isEmpty, slots.capacity > 1024 {
      heap = []
      slots = []
      freeSlots = []
    }
    return payload
  }

  private mutating func put(_ element: Element, at position: Int) {
    heap[position] = element
    slots[element.slot].position = position
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
    assert(slots[heap[position].slot].position == position, "a slot does not know its element's position")
    assert(slots[heap[position].slot].payload != nil, "a deadline has no payload")
    assert(position == 0 || !heap[position].comesBefore(heap[(position - 1) / 2]), "a deadline is behind a later one")
  }
}
