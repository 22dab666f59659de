internal import EpollReactor

/// Payloads that are due later, in the order of their times. Those with the same time are in the order in which they were added.
struct TimerQueue<Payload> {
  typealias Key = DeadlineNumbers.Key

  private var deadlines = DeadlineNumbers()
  /// By the numbers in `deadlines`.
  private var payloads: [Payload?] = []
  private var free: [Int] = []

  var count: Int { deadlines.count }
  var earliest: Int64? { deadlines.earliest }

  mutating func insert(at time: Int64, _ payload: Payload) -> Key {
    let slot: Int
    if let free = free.popLast() {
      slot = free
      payloads[slot] = payload
    } else {
      slot = payloads.count
      payloads.append(payload)
    }
    return deadlines.insert(at: time, slot)
  }

  /// Does nothing if the payload was taken or removed before.
  mutating func remove(_ key: Key) { if let slot = deadlines.remove(key) { _ = take(slot) } }

  mutating func popDue(at now: Int64) -> Payload? { deadlines.popDue(at: now).flatMap { take($0) } }

  private mutating func take(_ slot: Int) -> Payload? {
    free.append(slot)
    return payloads[slot].take()
  }
}
