/// Deadlines whose payloads are numbers.
///
/// Other modules use it instead of `DeadlineHeap`: a generic type of another module is not specialized, and looks its types up at run
/// time. A simulation spent a quarter of its time on that.
package struct DeadlineNumbers {
  /// Identifies an armed deadline.
  package struct Key {
    fileprivate let key: DeadlineHeap<Int>.Key
  }

  private var heap = DeadlineHeap<Int>()

  package init() {}

  /// The number of armed deadlines.
  package var count: Int { heap.count }

  /// The time of the earliest deadline; `nil` if no deadline is armed.
  package var earliest: Int64? { heap.earliest }

  /// Arms a deadline, and returns its key.
  package mutating func insert(at time: Int64, _ number: Int) -> Key { Key(key: heap.insert(at: time, number)) }

  /// Disarms a deadline, and returns its number. Returns `nil` if it has fired or was disarmed before.
  package mutating func remove(_ key: Key) -> Int? { heap.remove(key.key) }

  /// Takes the earliest deadline if it is due at `now`.
  package mutating func popDue(at now: Int64) -> Int? { heap.popDue(at: now) }
}
