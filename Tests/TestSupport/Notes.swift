import SocketSystem

/// What closures that run elsewhere have seen, in order.
package final class Notes<Element: Sendable>: Sendable {
  private let list = Locked<[Element]>([])

  package init() {}

  package func add(_ element: Element) { list.withLock { $0.append(element) } }
  package var all: [Element] { list.withLock { $0 } }
}
