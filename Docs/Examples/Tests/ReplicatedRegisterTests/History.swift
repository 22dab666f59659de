import ActorSocketsTesting

/// What a client did with the register, and when.
struct Operation: Sendable, CustomStringConvertible {
  enum Kind: Sendable { case read, write }

  let client: String
  let kind: Kind
  /// The value that was read or written; `nil` for a read that found nothing. Each write has another value.
  var value: String?
  let start: Duration
  /// `nil` if the client has crashed meanwhile. A write may have happened then, or may happen later.
  var end: Duration?

  var description: String {
    "\(client): \(kind) \(value ?? "nothing"), from \(start) to \(end.map { "\($0)" } ?? "its crash")"
  }
}

/// Collects what clients do. It belongs to the test, so it remembers the operations of clients that crash.
actor History {
  private var operations: [Operation] = []

  func begin(_ operation: Operation) -> Int {
    operations.append(operation)
    return operations.count - 1
  }

  func end(_ index: Int, _ value: String?, at time: Duration) {
    operations[index].value = value
    operations[index].end = time
  }

  /// The operations that count: a read without an end has no result.
  var all: [Operation] { operations.filter { $0.kind == .write || $0.end != nil } }
}

/// Finds out whether one register, which does one operation after the other, could give these results. It may do each at any time between
/// its start and its end, and may leave out those without an end.
struct LinearizabilityCheck {
  private struct Position: Hashable {
    var done: Set<Int>
    var value: String?
  }

  private let operations: [Operation]
  private var visited: Set<Position> = []

  static func passes(_ operations: [Operation]) -> Bool {
    var check = LinearizabilityCheck(operations: operations)
    return check.canContinue(from: Position(done: [], value: nil))
  }

  private init(operations: [Operation]) { self.operations = operations }

  private mutating func canContinue(from position: Position) -> Bool {
    let rest = operations.indices.filter { !position.done.contains($0) }
    guard let firstEnd = rest.compactMap({ operations[$0].end }).min() else { return true }
    guard visited.insert(position).inserted else { return false }
    for index in rest where operations[index].start <= firstEnd {
      let operation = operations[index]
      if operation.kind == .read, operation.value != position.value { continue }
      var next = position
      next.done.insert(index)
      next.value = operation.value
      if canContinue(from: next) { return true }
    }
    return false
  }
}

/// One register could not have given the results that the clients saw.
struct NotOneRegister: Error, CustomStringConvertible {
  let history: [Operation]

  var description: String { "these operations are not those of one register:\(history.map { "\n  \($0)" }.joined())" }
}
