@testable import ActorSockets

extension HappyEyeballs {
  /// Fails all attempts, with these codes in turn. Returns how many there were, and the error of them all.
  mutating func failAll(_ codes: [SocketError.Code]) -> (Int, SocketError?) {
    var count = 0
    while true {
      switch next(at: 0) {
      case .attempt(let attempt):
        let code = codes[count % codes.count]
        failed(attempt, SocketError(code, operation: "connect", address: attempt.address), at: 0)
        count += 1
      case .fail(let error): return (count, error)
      case .wait: return (count, nil)
      }
    }
  }
}
