/// What waits for the loop, in order.
struct WaitingList<Element> {
  private var elements: [Element] = []

  var isEmpty: Bool { elements.isEmpty }
  var count: Int { elements.count }

  mutating func add(_ element: Element) { elements.append(element) }

  mutating func take() -> [Element] {
    var taken: [Element] = []
    swap(&taken, &elements)
    return taken
  }

  /// Takes back what was taken, without the first elements, which the loop has `done`. The others come before those that were added
  /// meanwhile. The memory of an array that is empty then is reused.
  mutating func putBack(_ taken: inout [Element], done: Int) {
    if done < taken.count { return elements.insert(contentsOf: taken[done...], at: 0) }
    taken.removeAll(keepingCapacity: taken.capacity <= JobBatch.keptCapacity)
    if elements.isEmpty { swap(&taken, &elements) }
  }
}

/// The sockets that have asked for another turn, and those that ask for one when a descriptor is closed.
struct WaitingSockets {
  var rescheduled = WaitingList<Registration>()
  private var awaitingClosedDescriptor: [Registration] = []

  var isEmpty: Bool { rescheduled.isEmpty }

  mutating func awaitClosedDescriptor(_ registration: Registration) { awaitingClosedDescriptor.append(registration) }

  mutating func takeAwaitingClosedDescriptor() -> [Registration] {
    defer { awaitingClosedDescriptor = [] }
    return awaitingClosedDescriptor
  }
}
