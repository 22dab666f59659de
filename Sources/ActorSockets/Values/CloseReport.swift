/// How a stream ended.
public struct CloseReport: Sendable {
  /// Who or what ended the stream.
  @nonexhaustive
  public enum Reason: Sendable, Equatable {
    /// This side closed or aborted it.
    case local
    /// This side closed it after the peer had finished.
    case remote
    /// The peer reset the stream.
    case reset
    /// The peer stopped answering, or did not take the last bytes before the close timeout; or an operation timed out and
    /// the configuration says to close the connection in that case.
    case timedOut
    /// The peer did not read fast enough: an enqueued write would have exceeded the write budget, and the configuration says to abort
    /// the connection in that case.
    case peerTooSlow
    /// Something else failed: for example, the stream could not connect, or the reactor was shut down.
    case error(SocketError)

    /// Returns whether both are the same reason; two errors are equal if their codes are.
    public static func == (left: Reason, right: Reason) -> Bool {
      switch (left, right) {
      case (.local, .local), (.remote, .remote), (.reset, .reset), (.timedOut, .timedOut), (.peerTooSlow, .peerTooSlow):
        true
      case (.error(let left), .error(let right)): left.code == right.code
      default: false
      }
    }
  }

  /// Who or what ended the stream.
  public let reason: Reason
  /// The bytes that were received from the peer.
  public let bytesReceived: Int
  /// The bytes that were handed to the kernel for sending.
  public let bytesSent: Int
  /// The bytes that were written but not handed to the kernel.
  public let bytesUnsent: Int
}
