/// Deadlines whose payloads are numbers. Other modules use it instead of `DeadlineQueue`: a generic type of another module is not
/// specialized, and looks its types up at run time. A simulation spent a quarter of its time on that.
package struct DeadlineNumbers {
  package struct Key {
    fileprivate let key: DeadlineQueue<Int>.Key
  }

  private var queue = DeadlineQueue<Int>()

  package init() {}

  package var count: Int { queue.count }
  package var earliest: Int64? { queue.earliest }

  package mutating func insert(at time: Int64, _ number: Int) -> Key { Key(key: queue.insert(at: time, number)) }
  package mutating func remove(_ key: Key) -> Int? { queue.remove(key.key) }
  package mutating func popDue(at now: Int64) -> Int? { queue.popDue(at: now) }
}
