internal import SocketSystem

// Which addresses to try, in which order: a pure machine. Addresses are tried one after the other; the first that answers
// wins. The error names every address that was tried and what became of it.

/// The addresses of one connection attempt.
struct ConnectPlan {
  enum Step {
    /// Connect to this address, then report how that went.
    case attempt(SocketAddress)
    /// All have failed.
    case fail(SocketError)
  }

  private var left: ArraySlice<SocketAddress>
  private var failures: [SocketError] = []

  init(_ addresses: [SocketAddress]) { left = addresses[...] }

  /// The address under way failed.
  mutating func attemptFailed(_ error: SocketError) { failures.append(error) }

  /// What to do next.
  mutating func next() -> Step {
    if let address = left.popFirst() { return .attempt(address) }
    return .fail(outcome)
  }

  /// What the failures come to.
  private var outcome: SocketError {
    guard let first = failures.first else {
      return SocketError(.hostNotFound, operation: "connect", detail: "there is no address to connect to")
    }
    if failures.count == 1 { return first }
    let codes = Set(failures.map(\.code))
    let list = failures.map { "\($0)" }.joined(separator: "; ")
    return SocketError(
      codes.count == 1 ? first.code : .unreachable, operation: "connect",
      detail: "none of \(failures.count) addresses answered: \(list)", errno: 0)
  }
}
