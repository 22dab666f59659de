public import EpollReactor
public import SocketSystem

/// Receives the events of a reactor, for logs and metrics: `Reactor.observer`.
///
/// ```swift
/// struct Log: ReactorObserver {
///   func accepted(_ connection: ObservedConnection) { print("accepted", connection) }
///   func closed(_ connection: ObservedConnection, _ report: CloseReport) { print("closed", connection, report.reason) }
/// }
/// Reactor.shared.observer = Log()
/// ```
///
/// Implement only the methods that you need: the defaults do nothing. All methods are called on the reactor's thread and must
/// be short, because every socket of the reactor waits meanwhile.
///
/// For each connection, the observer receives either one call of ``connectFailed(_:_:)``, or one call of ``connected(_:)`` or
/// ``accepted(_:)`` and later one of ``closed(_:_:)``. So a counter that the first call increases is always decreased again.
public protocol ReactorObserver: Sendable {
  /// Called when a connection that this process opened is established, or when a connection was adopted.
  ///
  /// - Parameter connection: The connection.
  func connected(_ connection: ObservedConnection)

  /// Called when a listener has accepted a connection; behind a load balancer, when the header has arrived.
  ///
  /// - Parameter connection: The connection.
  func accepted(_ connection: ObservedConnection)

  /// Called when connecting has failed for good, or an accepted connection did not begin with a valid PROXY header.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - error: The reason; `.closed` if it was closed, cancelled or dropped before it was established.
  func connectFailed(_ connection: ObservedConnection, _ error: SocketError)

  /// Called when a try to connect has failed, and another one will follow: see ``TCPConnection/Configuration/retry``.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - error: Why this try has failed.
  ///   - delay: The delay before the next try.
  func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration)

  /// Called when a connection has ended.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - report: How it ended. If the last reference was dropped, the reason is `.local`.
  func closed(_ connection: ObservedConnection, _ report: CloseReport)

  /// Called when a handshake on a connection is done, before operations on it resume. The connection is encrypted from now on.
  ///
  /// It is not called for handshakes over other kinds of streams.
  ///
  /// - Parameters:
  ///   - connection: The connection that is encrypted. Its number is the same as in the other calls.
  ///   - handshake: The result of the handshake.
  func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake)

  /// Called once when a handshake on a connection has failed. The connection closes.
  ///
  /// This call comes before ``closed(_:_:)`` if the encrypted connection ends first: an alert, a certificate, a timeout, its `close()` or
  /// its `abort()`. It comes after ``closed(_:_:)`` if the connection beneath ends first: the peer resets it, the program aborts it, or
  /// the reactor shuts down.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - error: The error that the operations throw.
  func handshakeFailed(_ connection: ObservedConnection, _ error: any Error)

  /// Called when the handler of an accepted connection, or of a datagram, has thrown an error.
  ///
  /// A connection is aborted, unless it has ended already; so this call may come before or after ``closed(_:_:)``. It is not made for
  /// failed handshakes, nor for handlers that were cancelled because a drain was over. The observer that is set at that time receives the
  /// call.
  ///
  /// - Parameters:
  ///   - connection: The connection, or the endpoint that received the datagram.
  ///   - error: The error that the handler has thrown.
  func handlerFailed(_ connection: ObservedConnection, _ error: any Error)

  /// Called when the kernel has dropped datagrams of an endpoint, because the program received them too slowly. The endpoint checks
  /// this when a receive returns a full batch, and when the endpoint is closed.
  ///
  /// - Parameters:
  ///   - count: The number of datagrams dropped since the last call.
  ///   - endpoint: The endpoint.
  func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection)

  /// The shortest duration of a loop iteration for which ``lagged(_:)`` is called. Read once, when the observer is set. 100
  /// milliseconds by default.
  var lagThreshold: Duration { get }

  /// Called when an iteration of the loop has taken long, after its end. A socket that became ready in the iteration waited up to this
  /// long.
  ///
  /// - Parameter lag: The duration of the iteration.
  func lagged(_ lag: Duration)
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ReactorObserver {
  public func connected(_ connection: ObservedConnection) {}
  public func accepted(_ connection: ObservedConnection) {}
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {}
  public func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {}
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) {}
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {}
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {}
  public func handlerFailed(_ connection: ObservedConnection, _ error: any Error) {}
  public func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) {}
  public var lagThreshold: Duration { .milliseconds(100) }
  public func lagged(_ lag: Duration) {}
}

/// The identity of a connection or a datagram endpoint, for observers. A value, so that storing it keeps nothing alive.
public struct ObservedConnection: Hashable, Sendable, CustomStringConvertible {
  /// The ``TCPConnection/id`` or ``UDPEndpoint/id``.
  public let id: UInt64
  /// The ``TCPConnection/label`` or ``UDPEndpoint/label`` at the time of the call.
  public let label: String?
  /// The local address, if there is one.
  public let localAddress: SocketAddress?
  /// The address of the peer, if there is one.
  public let remoteAddress: SocketAddress?

  init(_ id: UInt64, _ identity: ConnectionIdentity) {
    self.id = id
    label = identity.label
    localAddress = identity.localAddress
    remoteAddress = identity.remoteAddress
  }

  /// A description in one line, for logs: the number, the label and the addresses.
  public var description: String {
    let name = label.map { " \"\($0)\"" } ?? ""
    let local = localAddress.map { "\($0)" } ?? "?"
    let remote = remoteAddress.map { "\($0)" } ?? "?"
    return "\(id)\(name) \(local) → \(remote)"
  }
}

extension Reactor {
  /// The observer of connections that begin from now on, and of the reactor's lag. `nil` by default. Safe to use from any
  /// thread.
  ///
  /// A connection keeps the observer that it began with, so that the same observer sees its beginning and its end. Set the
  /// observer before you create sockets.
  public var observer: (any ReactorObserver)? {
    get { (hook as? ObserverHook)?.observer }
    set { hook = newValue.map(ObserverHook.init) }
  }
}

private final class ObserverHook: ReactorHook {
  let observer: any ReactorObserver
  let lagThreshold: Int64

  init(_ observer: any ReactorObserver) {
    self.observer = observer
    lagThreshold = observer.lagThreshold.clampedNanoseconds
  }

  func lagged(_ nanoseconds: Int64) { observer.lagged(.nanoseconds(nanoseconds)) }
}

/// The state that an observed connection keeps for its observer.
package final class Observation: Sendable {
  private let observer: any ReactorObserver
  private let id: UInt64
  private let identity: Locked<ConnectionIdentity>
  private let isAccepted: Bool

  package init?(on reactor: Reactor, _ id: UInt64, _ identity: Locked<ConnectionIdentity>, isAccepted: Bool) {
    guard let observer = reactor.observer else { return nil }
    self.observer = observer
    self.id = id
    self.identity = identity
    self.isAccepted = isAccepted
  }

  private var connection: ObservedConnection { ObservedConnection(id, identity.withLock { $0 }) }

  func isUp() {
    if isAccepted { observer.accepted(connection) } else { observer.connected(connection) }
  }

  func handshakeIsDone(_ handshake: ObservedHandshake) { observer.handshakeDone(connection, handshake) }

  func handshakeFailed(_ error: any Error) { observer.handshakeFailed(connection, error) }

  func willRetry(_ error: SocketError, after delay: Duration) {
    observer.connectWillRetry(connection, error, after: delay)
  }

  func ended(_ outcome: Result<CloseReport, SocketError>) {
    switch outcome {
    case .success(let report): observer.closed(connection, report)
    case .failure(let error): observer.connectFailed(connection, error)
    }
  }
}
