/// An element that a queue can find by its number. Numbers grow with each element that is admitted.
package protocol Identified {
  var id: UInt64 { get }
}

/// A first-in, first-out queue in an array. Elements can also be removed from the middle.
///
/// Invariant: if there is a `lone` element, there is no other. It needs no array, and most queues never hold more than one
/// element.
package struct FIFO<Element> {
  private var lone: Element?
  private var storage: [Element?] = []
  private var head = 0

  /// The capacity that an empty queue may keep: enough for a batch of datagrams.
  private static var keptCapacity: Int { 64 }

  package init() {}

  package var count: Int { lone == nil ? storage.count - head : 1 }
  package var isEmpty: Bool { lone == nil && storage.count == head }
  package var first: Element? { lone ?? (storage.count == head ? nil : storage[head]) }

  package mutating func append(_ element: Element) {
    if isEmpty {
      lone = element
    } else {
      if let first = lone.take() { storage.append(first) }
      storage.append(element)
    }
    assert(lone == nil || storage.count == head, "a lone element is the only one")
  }

  /// The element at `index`, counted from the front.
  subscript(index: Int) -> Element {
    if index == 0, let lone { return lone }
    guard let element = storage[head + index] else { preconditionFailure("an element was read after it left") }
    return element
  }

  /// Changes the element at `index` in place.
  mutating func change(_ index: Int, _ body: (inout Element) -> Void) {
    if index == 0, lone != nil {
      lone.mutate(body)
    } else {
      storage[head + index].mutate(body)
    }
  }

  /// All elements, in order.
  var all: [Element] { (0..<count).map { self[$0] } }

  package mutating func popFirst() -> Element? { isEmpty ? nil : remove(at: 0) }

  /// Removes the element at `index`, in constant time near either end.
  @discardableResult
  mutating func remove(at index: Int) -> Element {
    if index == 0, let element = lone.take() { return element }
    let element = self[index]
    if index > count / 2 {
      storage.remove(at: head + index)
      return element
    }
    // Move the few elements in front of it, not the many behind it.
    for position in stride(from: head + index, to: head, by: -1) { storage.swapAt(position, position - 1) }
    storage[head] = nil
    head += 1
    if head == storage.count {
      head = 0
      storage.removeAll(keepingCapacity: storage.capacity <= Self.keptCapacity)
    } else if head >= 32, head >= storage.count - head {
      storage.removeSubrange(0..<head)
      head = 0
    }
    return element
  }

  /// Removes the elements from `index` on for which `leaving` is true, in one pass.
  mutating func removeAll(from index: Int, where leaving: (Element) -> Bool) -> [Element] {
    if let element = lone {
      if index > 0 || !leaving(element) { return [] }
      lone = nil
      return [element]
    }
    var removed: [Element] = []
    var kept: [Element?] = []
    for case let element? in storage[(head + index)...] {
      if leaving(element) { removed.append(element) } else { kept.append(element) }
    }
    if removed.isEmpty { return [] }
    storage.replaceSubrange((head + index)..., with: kept)
    if isEmpty {
      head = 0
      storage.removeAll(keepingCapacity: storage.capacity <= Self.keptCapacity)
    }
    return removed
  }
}

extension FIFO where Element: Identified {
  /// Returns the index of the element with this number. A binary search, because numbers grow toward the end.
  func index(of id: UInt64) -> Int? {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if self[middle].id < id { low = middle + 1 } else { high = middle }
    }
    return low < count && self[low].id == id ? low : nil
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
