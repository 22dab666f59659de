public import EpollReactor

/// Copies of elements that have arrived, which a loop may take without a call: see Lookahead.swift.
@usableFromInline
struct ElementsAhead<Element: Sendable>: Sendable {
  @usableFromInline let elements: [Element]
  @usableFromInline let lookahead: Lookahead

  init(_ elements: [Element], _ lookahead: Lookahead) {
    self.elements = elements
    self.lookahead = lookahead
  }

  /// `nil` if the loop must make a call, also if the task is cancelled: then the call throws.
  @inlinable @inline(__always)
  func take() -> Element? {
    guard !Task.isCancelled, let index = lookahead.take() else { return nil }
    return elements[index]
  }
}
