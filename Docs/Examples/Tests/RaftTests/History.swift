import ActorSocketsTesting

/// What a client did with a key, and when.
struct Operation: Sendable, CustomStringConvertible {
  enum Kind: Sendable { case get, put }

  let client: Int
  let kind: Kind
  let key: String
  /// The value that was found or stored; `nil` for nothing. Each put has another value.
  var value: String?
  let start: Duration
  let end: Duration

  var description: String { "client \(client): \(kind) \(key) \(value ?? "nothing"), from \(start) to \(end)" }
}

/// Collects what clients do.
actor History {
  private(set) var operations: [Operation] = []

  func add(_ operation: Operation) { operations.append(operation) }

  /// Throws if these are not the operations of a store that does one after the other, each between its start and its end.
  func check() throws {
    for (key, operations) in Dictionary(grouping: operations, by: \.key).sorted(by: { $0.key < $1.key }) {
      if !LinearizabilityCheck.passes(operations) { throw NotOneStore(key: key, history: operations) }
    }
  }
}

/// Finds out whether one variable, which does one operation after the other, could give these results: the search of Wing and Gong (1993),
/// which remembers where it has been.
///
/// Each client does one operation at a time. So the place of the search is the number of operations that each client has done, and the value.
struct LinearizabilityCheck {
  private struct Position: Hashable {
    var done: [Int]
    var value: String?
  }

  private let clients: [[Operation]]

  static func passes(_ operations: [Operation]) -> Bool {
    let clients = Dictionary(grouping: operations, by: \.client).sorted { $0.key < $1.key }
    return LinearizabilityCheck(clients: clients.map { $0.value.sorted { $0.start < $1.start } }).search()
  }

  private func search() -> Bool {
    var visited: Set<Position> = []
    var open = [Position(done: clients.map { _ in 0 }, value: nil)]
    while let position = open.popLast() {
      let next = clients.indices.filter { position.done[$0] < clients[$0].count }
      guard let firstEnd = next.map({ clients[$0][position.done[$0]].end }).min() else { return true }
      for client in next {
        let operation = clients[client][position.done[client]]
        // Another one has ended before this one started, so this one cannot be the next.
        if operation.start > firstEnd || (operation.kind == .get && operation.value != position.value) { continue }
        var new = position
        new.done[client] += 1
        new.value = operation.value
        if visited.insert(new).inserted { open.append(new) }
      }
    }
    return false
  }
}

/// One store could not have given the results that the clients saw.
struct NotOneStore: Error, CustomStringConvertible {
  let key: String
  let history: [Operation]

  var description: String {
    let lines = history.sorted { $0.start < $1.start }.map { "\n  \($0)" }.joined()
    return "these operations are not those of one variable:\(lines)"
  }
}
