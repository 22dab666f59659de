/// The values, and the last request of each client. Every node applies the same commands in the same order, so all have the same.
struct KeyValueStore: Sendable {
  private var values: [[UInt8]: [UInt8]] = [:]
  /// A client has one request at a time, so its last one is enough to recognize a repetition.
  private var lastRequests: [UInt64: UInt64] = [:]
  /// A bug for tests.
  var ignoresSessions = false

  mutating func apply(_ command: Command) {
    guard case .put(let key, let value, let session) = command else { return }
    if session.number <= lastRequests[session.client] ?? 0, !ignoresSessions { return }
    lastRequests[session.client] = session.number
    values[key] = value
  }

  subscript(key: [UInt8]) -> [UInt8]? { values[key] }
}
