/// An error of a connection, a listener or an endpoint: ``SocketError``, `TLSError`, ``PipeError`` and ``DatagramBatchError``.
///
/// Handle errors by what they mean for the program, so that the same code serves plain and encrypted connections:
///
/// ```swift
/// } catch let error as any NetworkError where error.isRetryable {
///   log("trying again: \(error)")
/// }
/// ```
///
/// `CancellationError`, `AddressError` and errors of the program's own closures are not network errors. The description is a sentence that a
/// person can act on; text from a peer is escaped in it.
public protocol NetworkError: Error, CustomStringConvertible {
  /// Whether any peer can cause the error whenever it wants to. A server need not report such errors.
  var isCausedByPeer: Bool { get }

  /// Whether a time limit of this side has passed: the timeout of an operation, of connecting, of a handshake, or an idle timeout.
  var isTimeout: Bool { get }

  /// Whether the same work may succeed later, or on a new connection: the peer or the network failed, or was slow. It is `false` if a
  /// setting, an argument, a certificate or a permission has to change first, if this side closed the connection, if a limit of this
  /// program is exceeded, and if it does not accept the peer's messages.
  var isRetryable: Bool { get }
}

extension SocketError: NetworkError {
  /// Whether a time limit has passed: ``Code/timedOut``. The kernel's limits count, too, for example that of a keep-alive.
  public var isTimeout: Bool {
    code == .layerFailed ? (underlyingError as? any NetworkError)?.isTimeout ?? false : code == .timedOut
  }

  /// Whether the same work may succeed later, or on a new connection: see ``NetworkError/isRetryable``.
  public var isRetryable: Bool {
    switch code {
    case .invalidArgument, .rejected, .permissionDenied, .notASocket, .scopeMissing, .familyNotSupported,
      .interfaceNotFound, .closed, .reactorShutDown, .proxyAuthenticationFailed, .upgraded, .limitExceeded,
      .invalidUTF8,
      .invalidMessage, .invalidProxyHeader, .notConnected, .alreadyJoined, .notJoined:
      false
    case .layerFailed: (underlyingError as? any NetworkError)?.isRetryable ?? false
    default: true
    }
  }
}

extension SocketError.Code {
  /// Matches an error with this code, so that `catch SocketError.Code.timedOut`, or `catch .timedOut`, handles exactly that.
  ///
  /// - Parameters:
  ///   - code: The code.
  ///   - error: An error of any type.
  /// - Returns: Whether the error is a ``SocketError`` with this code, or a ``PipeError`` with such an error.
  public static func ~= (code: SocketError.Code, error: any Error) -> Bool {
    (PipeError.cause(of: error) as? SocketError)?.code == code
  }
}
