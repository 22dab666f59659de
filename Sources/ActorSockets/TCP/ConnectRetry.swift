// When connecting is tried again, as a pure state machine.
//
// Invariants:
// - Before the n-th repetition there is a random delay between 0 and min(maximumDelay, firstDelay * 2^(n-1)): exponential backoff with
//   full jitter, so that many clients of a server that was down do not return at the same time.
// - Connecting is tried `maximumTries` times at most. A failure that another try would only repeat is final.

extension TCPConnection {
  /// How connecting is repeated after it has failed: ``Configuration/retry``.
  ///
  /// A try includes the look-up of the name, the attempts to all addresses, and the conversation with a proxy. All tries and the delays
  /// between them together are limited by ``Configuration/connectTimeout``, 30 seconds by default, or by the timeout of
  /// ``TCPConnection/connect(to:configuration:timeout:reactor:)``. Set a longer time if it is worth waiting for the server.
  ///
  /// Some failures are final, because another try would only repeat them: invalid arguments, missing permissions, refusals by
  /// ``Configuration/prepare``, and credentials that a proxy rejects. Other refusals of a proxy are tried again.
  public struct Retry: Hashable, Sendable {
    /// The largest number of tries, at least 1. 5 by default.
    public var maximumTries = 5
    /// The longest delay before the first repetition. It doubles with each further repetition. 100 milliseconds by default. Negative
    /// durations count as zero.
    ///
    /// The delay itself is random, between 0 and this value, so that many clients do not return at the same time.
    public var firstDelay: Duration = .milliseconds(100)
    /// The longest delay before any repetition. 10 seconds by default.
    public var maximumDelay: Duration = .seconds(10)
    /// How long one try may take. 10 seconds by default. With zero or less, a try succeeds only if it need not wait.
    public var tryTimeout: Duration = .seconds(10)

    /// Creates the setting with its defaults.
    public init() {}
  }
}

struct RetrySchedule {
  private let policy: TCPConnection.Retry
  /// The tries that have begun.
  private(set) var tries = 1
  private(set) var lastFailure: SocketError?

  init(_ policy: TCPConnection.Retry) { self.policy = policy }

  var tryTimeout: Duration { policy.tryTimeout }

  /// The longest delay before the next repetition, in nanoseconds.
  var longestDelay: Int64 {
    Backoff(first: policy.firstDelay, longest: policy.maximumDelay).longestPause(afterFailures: tries)
  }

  /// Returns the delay before the next try, in nanoseconds; `nil` if there is no next try.
  mutating func delay(after error: SocketError, _ random: inout some RandomNumberGenerator) -> Int64? {
    guard tries < policy.maximumTries, error.isTransient else { return nil }
    let delay = Int64.random(in: 0...longestDelay, using: &random)
    tries += 1
    lastFailure = error
    return delay
  }

  func final(_ error: SocketError) -> SocketError {
    if tries == 1 { return error }
    var error = error
    error.detail = "\(error.cause); tried \(tries) times"
    return error
  }

  /// `error` is that of the try under way; `nil` in a delay. `limit` is in words: "within 30 s".
  func timedOut(_ error: SocketError?, _ limit: String) -> SocketError? {
    guard let lastFailure else { return error }
    let failed = error == nil ? tries - 1 : tries
    return SocketError(
      .timedOut, operation: "connect",
      detail: "not connected \(limit), although tried \(failed) times; the last failure: \(lastFailure)",
      causes: [lastFailure])
  }
}

extension SocketError {
  fileprivate var isTransient: Bool {
    switch code {
    case .invalidArgument, .rejected, .permissionDenied, .notASocket, .scopeMissing, .familyNotSupported,
      .interfaceNotFound, .closed,
      .reactorShutDown, .proxyAuthenticationFailed:
      false
    default: true
    }
  }
}
