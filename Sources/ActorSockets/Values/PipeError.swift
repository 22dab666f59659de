/// The error of a stream that ended ``pipe(from:to:)``, ``relay(between:and:)`` or ``ByteStream/pipe(exactly:to:)``: which of the two
/// streams it was, and why.
///
/// ```swift
/// do {
///   try await relay(between: client, and: server)
/// } catch let error as PipeError where error.stream == .second {
///   log("the server failed: \(error.underlyingError)")
/// }
/// ```
///
/// `catch SocketError.Code.connectionReset` and `catch TLSError.Code.truncated` also match an error whose ``underlyingError`` has this code.
public struct PipeError: Error, Sendable {
  /// One of the two streams of a call.
  public enum Stream: Hashable, Sendable {
    /// The first stream of the call: of a pipe, the source.
    case first
    /// The second stream of the call: of a pipe, the destination.
    case second
  }

  /// What failed on a stream.
  public enum Action: Hashable, Sendable {
    /// Reading: also if more bytes arrived than a ``RateLimit`` allows, or fewer than ``ByteStream/pipe(exactly:to:)`` was to move.
    case reading
    /// Writing, or the end of writing.
    case writing
  }

  /// The stream that failed. If both have failed, it is the one that failed first.
  public let stream: Stream
  /// What failed on the stream.
  public let action: Action
  /// The error of the stream: ``SocketError``, over TLS also `TLSError`.
  public let underlyingError: any Error

  /// Creates an error, for example to test what a program does with one.
  ///
  /// - Parameters:
  ///   - stream: The stream that failed.
  ///   - action: What failed on the stream.
  ///   - underlyingError: The error of the stream.
  public init(_ stream: Stream, _ action: Action, _ underlyingError: any Error) {
    self.stream = stream
    self.action = action
    self.underlyingError = underlyingError
  }

  /// The error of the stream, if `error` is a `PipeError`; otherwise `error` itself.
  package static func cause(of error: any Error) -> any Error { (error as? PipeError)?.underlyingError ?? error }
}

extension PipeError: NetworkError {
  private var network: (any NetworkError)? { underlyingError as? any NetworkError }

  /// Whether the peer of the stream that failed can cause the error: see ``NetworkError/isCausedByPeer``.
  public var isCausedByPeer: Bool { network?.isCausedByPeer ?? false }
  /// Whether a time limit of this side has passed: see ``NetworkError/isTimeout``.
  public var isTimeout: Bool { network?.isTimeout ?? false }
  /// Whether the same work may succeed later, or on new connections: see ``NetworkError/isRetryable``.
  public var isRetryable: Bool { network?.isRetryable ?? false }

  /// A description in one sentence, which says which stream failed.
  public var description: String {
    let name = stream == .first ? "first" : "second"
    return "\(action == .reading ? "reading from" : "writing to") the \(name) stream failed: \(underlyingError)"
  }
}
