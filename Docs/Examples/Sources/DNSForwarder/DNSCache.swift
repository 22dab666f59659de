/// The answers that are known, each until the time of one of its records is over. The oldest answer makes room for a new one.
struct DNSCache {
  private struct Entry {
    var response: DNSResponse
    var arrival: ContinuousClock.Instant
    var number: Int
  }

  let limit: Int
  private var entries: [DNSQuestion: Entry] = [:]
  /// The questions in the order of their answers. An answer that was replaced is still here with its old number.
  private var order: [(question: DNSQuestion, number: Int)] = []
  private var first = 0
  private var last = 0

  init(limit: Int) { self.limit = limit }

  var count: Int { entries.count }

  /// Returns an answer and the number of seconds since it has arrived.
  mutating func answer(
    to question: DNSQuestion, now: ContinuousClock.Instant
  ) -> (response: DNSResponse, age: UInt32)? {
    guard let entry = entries[question] else { return nil }
    let age = UInt32(clamping: (now - entry.arrival).components.seconds)
    if age < entry.response.lifetime { return (entry.response, age) }
    entries[question] = nil
    return nil
  }

  /// Keeps an answer, if it may be kept.
  mutating func keep(_ response: DNSResponse, to question: DNSQuestion, now: ContinuousClock.Instant) {
    if response.lifetime == 0 || limit == 0 { return }
    last += 1
    entries[question] = Entry(response: response, arrival: now, number: last)
    order.append((question, last))
    while entries.count > limit || order.count - first > 2 * limit {
      let oldest = order[first]
      first += 1
      if entries[oldest.question]?.number == oldest.number { entries[oldest.question] = nil }
    }
    // The questions before the first one are removed together, so that each costs little.
    if first > limit {
      order.removeFirst(first)
      first = 0
    }
  }
}
