/// An element that a queue can find by its number. Numbers grow with each element that is admitted.
package protocol Identified {
  var id: UInt64 { get }
}

/// A first-in, first-out queue in an array. Elements that have a number can also be removed from the middle.
///
/// An element that leaves the middle leaves a gap, so no other element moves. The array is compacted when at least half of its slots,
/// and at least `keptVacant` of them, are empty. So finding an element takes logarithmic time, and removing it takes amortized
/// constant time.
///
/// Invariants:
/// - If there is a `lone` element, there is no other. It needs no array, and most queues never hold more than one element.
/// - `count` is the number of elements. If it is 0, there is no slot.
/// - The slots before `head` are empty, and the slot at `head` has the first element. Any other empty slot is a gap.
/// - There is a trace for each slot up to the last gap, or further. It keeps the number of the element that left, so that a
///   binary search passes over gaps.
package struct FIFO<Element> {
  /// The position of an element. It is valid until an element is added or removed.
  struct Index: Equatable {
    fileprivate let position: Int
  }

  private struct Trace {
    let number: UInt64
    /// The length of the run of gaps that begins or ends here. Not kept up to date within a run.
    var gaps = 0
  }

  package private(set) var count = 0
  private var lone: Element?
  private var storage: [Element?] = []
  private var head = 0
  private var traces: [Trace] = []

  /// The capacity that an empty queue may keep: enough for a batch of datagrams.
  private static var keptCapacity: Int { 64 }
  private static var keptVacant: Int { 32 }

  package init() {}

  package var isEmpty: Bool { count == 0 }
  package var first: Element? { isEmpty ? nil : lone ?? storage[head] }
  var last: Element? {
    guard let last = storage.last else { return lone }
    return last ?? storage[storage.count - 1 - traces[storage.count - 1].gaps]
  }

  /// Valid only if there is no `lone` element.
  private var vacant: Int { storage.count - count }

  package mutating func append(_ element: Element) {
    if isEmpty {
      lone = element
    } else {
      if let first = lone.take() { storage.append(first) }
      storage.append(element)
    }
    count += 1
    assert(lone == nil || storage.isEmpty, "a lone element is the only one")
  }

  /// Refers to an element only if the queue is not empty.
  var startIndex: Index { Index(position: head) }
  var firstIndex: Index? { isEmpty ? nil : startIndex }

  /// Takes constant time, also over gaps.
  func index(after index: Index) -> Index? {
    var next = index.position + 1
    if next < storage.count, storage[next] == nil { next += traces[next].gaps }
    return next < storage.count ? Index(position: next) : nil
  }

  subscript(index: Index) -> Element {
    if let lone { return lone }
    guard let element = storage[index.position] else { preconditionFailure("an element was read after it left") }
    return element
  }

  mutating func change(_ index: Index, _ body: (inout Element) -> Void) {
    if lone != nil {
      lone.mutate(body)
    } else {
      storage[index.position].mutate(body)
    }
  }

  /// The first elements that are wanted, at most `limit`. Later elements are not looked at.
  func first(_ limit: Int, where isWanted: (Element) -> Bool = { _ in true }) -> [Element] {
    var found: [Element] = []
    var next = firstIndex
    while let index = next, found.count < limit {
      if isWanted(self[index]) { found.append(self[index]) }
      next = self.index(after: index)
    }
    return found
  }

  var all: [Element] { if let lone { [lone] } else { storage.compactMap(\.self) } }

  package mutating func popFirst() -> Element? {
    if isEmpty { return nil }
    count -= 1
    if let element = lone.take() { return element }
    let element = storage[head].take()
    head += 1
    if vacant > head, storage[head] == nil { head += traces[head].gaps }
    compactIfNeeded()
    return element
  }

  mutating func removeAll(where leaving: (Element) -> Bool) {
    if let element = lone {
      if leaving(element) { _ = popFirst() }
      return
    }
    storage.removeAll { $0.map(leaving) ?? true }
    count = storage.count
    forgetVacantSlots()
  }

  private mutating func compactIfNeeded() {
    if isEmpty {
      storage.removeAll(keepingCapacity: storage.capacity <= Self.keptCapacity)
    } else if vacant >= Self.keptVacant, vacant >= storage.count - vacant {
      storage.removeSubrange(..<head)
      if vacant > 0 { storage.removeAll { $0 == nil } }
    } else {
      return
    }
    forgetVacantSlots()
  }

  private mutating func forgetVacantSlots() {
    head = 0
    traces = []
  }
}

extension FIFO where Element: Identified {
  /// A binary search, because numbers grow toward the end.
  func index(of id: UInt64) -> Index? {
    if let lone { return lone.id == id ? startIndex : nil }
    var low = head
    var high = storage.count
    while low < high {
      let middle = (low + high) / 2
      if number(at: middle) < id { low = middle + 1 } else { high = middle }
    }
    return low < storage.count && storage[low]?.id == id ? Index(position: low) : nil
  }

  private func number(at position: Int) -> UInt64 {
    position < traces.count ? traces[position].number : storage[position]?.id ?? 0
  }

  @discardableResult
  mutating func remove(at index: Index) -> Element {
    let element = self[index]
    if lone != nil || index == startIndex {
      _ = popFirst()
    } else {
      leaveGap(at: index.position)
      compactIfNeeded()
    }
    return element
  }

  private mutating func leaveGap(at position: Int) {
    while traces.count <= position { traces.append(Trace(number: number(at: traces.count))) }
    storage[position] = nil
    count -= 1
    // The gaps on both sides and this one become one run.
    let before = storage[position - 1] == nil ? traces[position - 1].gaps : 0
    let after = position + 1 < traces.count && storage[position + 1] == nil ? traces[position + 1].gaps : 0
    let gaps = before + 1 + after
    traces[position - before].gaps = gaps
    traces[position + after].gaps = gaps
  }
}

extension Optional {
  /// Changes the value in place, without a copy.
  fileprivate mutating func mutate(_ body: (inout Wrapped) -> Void) {
    guard var value = take() else { return }
    body(&value)
    self = value
  }
}

extension FIFO: Sendable where Element: Sendable {}
