import ActorSocketsTesting

/// What a client did with the register, and when.
struct Operation: Sendable, CustomStringConvertible {
  enum Kind { case read, write }

  let client: Int
  let kind: Kind
  /// The value that was read or written. Each write has another value.
  let value: String
  let start: SimulationClock.Instant
  let end: SimulationClock.Instant

  var description: String { "client \(client): \(kind) \(value), from \(start) to \(end)" }
}

/// Whether a register that does one operation after the other could give these results. It may do each at any time between its start and
/// its end.
func isLinearizable(_ history: [Operation], from value: String = "nothing") -> Bool {
  guard let firstEnd = history.map(\.end).min() else { return true }
  return history.indices.contains { index in
    let operation = history[index]
    // Another one has ended before this one started, so this one cannot be the first.
    if operation.start > firstEnd { return false }
    if operation.kind == .read, operation.value != value { return false }
    var rest = history
    rest.remove(at: index)
    return isLinearizable(rest, from: operation.value)
  }
}

/// One register could not have given the results that the clients saw.
struct NotOneRegister: Error, CustomStringConvertible {
  let history: [Operation]

  var description: String { "these operations are not those of one register:\(history.map { "\n  \($0)" }.joined())" }
}

/// Throws if no register could give these results.
func check(_ history: [Operation]) throws {
  if !isLinearizable(history) { throw NotOneRegister(history: history) }
}

/// Collects what the clients do.
actor History {
  private(set) var operations: [Operation] = []

  func add(_ operation: Operation) { operations.append(operation) }
}
