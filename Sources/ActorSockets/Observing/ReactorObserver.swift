public import EpollReactor
public import SocketSystem

/// Hears of what happens on a reactor, for logs and metrics: `Reactor.observer`.
///
/// ```swift
/// struct Log: ReactorObserver {
///   func accepted(_ connection: ObservedConnection) { print("accepted", connection) }
///   func closed(_ connection: ObservedConnection, _ report: CloseReport) { print("closed", connection, report.reason) }
/// }
/// Reactor.shared.observer = Log()
/// ```
///
/// Implement what is of interest: everything has a default that does nothing. All methods are called on the reactor's thread
/// and must be short, for all its sockets wait meanwhile.
///
/// Of each connection it hears either ``connectFailed(_:_:)``, or ``connected(_:)`` or ``accepted(_:)`` and later
/// ``closed(_:_:)``, each once. So what one adds another takes away.
public protocol ReactorObserver: Sendable {
  /// A connection that this side began is up, or one was adopted.
  ///
  /// - Parameter connection: Which one.
  func connected(_ connection: ObservedConnection)

  /// A listener accepted a connection.
  ///
  /// - Parameter connection: Which one.
  func accepted(_ connection: ObservedConnection)

  /// A connection did not come up.
  ///
  /// - Parameters:
  ///   - connection: Which one.
  ///   - error: Why; `.closed` if it was closed, cancelled or dropped before.
  func connectFailed(_ connection: ObservedConnection, _ error: SocketError)

  /// A connection has ended.
  ///
  /// - Parameters:
  ///   - connection: Which one.
  ///   - report: How. That of a connection whose last reference was dropped says `.local`.
  func closed(_ connection: ObservedConnection, _ report: CloseReport)

  /// A handshake on a connection is done: what it carries is encrypted from here on. Before operations on it go on.
  ///
  /// Of handshakes over streams of other kinds it hears nothing.
  ///
  /// - Parameters:
  ///   - connection: Which one: the connection that is encrypted, whose number is that of the other calls.
  ///   - handshake: What was agreed on.
  func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake)

  /// A handshake on a connection has failed, and the connection closes.
  ///
  /// - Parameters:
  ///   - connection: Which one.
  ///   - error: Why: what the operations throw.
  func handshakeFailed(_ connection: ObservedConnection, _ error: any Error)

  /// The kernel has dropped datagrams for an endpoint, because it was slower than they came. Looked at when as many come as can be
  /// fetched at a time, and when the endpoint is closed.
  ///
  /// - Parameters:
  ///   - count: How many since the last time.
  ///   - endpoint: Which one.
  func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection)

  /// How long a turn of the reactor's loop takes at least for ``lagged(_:)`` to be called. Looked at once, when the observer
  /// is set. 100 milliseconds by default.
  var lagThreshold: Duration { get }

  /// A turn of the loop took long: a socket that became ready meanwhile waited up to so long. Called when it is over.
  ///
  /// - Parameter lag: How long it took.
  func lagged(_ lag: Duration)
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ReactorObserver {
  public func connected(_ connection: ObservedConnection) {}
  public func accepted(_ connection: ObservedConnection) {}
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {}
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) {}
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {}
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {}
  public func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) {}
  public var lagThreshold: Duration { .milliseconds(100) }
  public func lagged(_ lag: Duration) {}
}

/// What an observer hears of a connection, or of an endpoint for datagrams: values, so that keeping them keeps nothing alive.
public struct ObservedConnection: Hashable, Sendable, CustomStringConvertible {
  /// Its ``TCPConnection/id`` or ``UDPEndpoint/id``.
  public let id: UInt64
  /// Its ``TCPConnection/label`` or ``UDPEndpoint/label`` at that time.
  public let label: String?
  /// This side's address, if there is one.
  public let localAddress: SocketAddress?
  /// The peer's address, if there is one.
  public let remoteAddress: SocketAddress?

  init(_ id: UInt64, _ identity: ConnectionIdentity) {
    self.id = id
    label = identity.label
    localAddress = identity.localAddress
    remoteAddress = identity.remoteAddress
  }

  /// One line for logs: number, label, addresses.
  public var description: String {
    let name = label.map { " \"\($0)\"" } ?? ""
    let local = localAddress.map { "\($0)" } ?? "?"
    let remote = remoteAddress.map { "\($0)" } ?? "?"
    return "\(id)\(name) \(local) → \(remote)"
  }
}

extension Reactor {
  /// Who hears of the connections that begin from now on, and of the reactor's lag. Any thread; none at first.
  ///
  /// A connection keeps the observer that it began with, so that its end is told to whom its beginning was. Set it before the
  /// sockets are made.
  public var observer: (any ReactorObserver)? {
    get { (hook as? ObserverHook)?.observer }
    set { hook = newValue.map(ObserverHook.init) }
  }
}

/// The observer as the reactor holds it.
private final class ObserverHook: ReactorHook {
  let observer: any ReactorObserver
  let lagThreshold: Int64

  init(_ observer: any ReactorObserver) {
    self.observer = observer
    lagThreshold = observer.lagThreshold.clampedNanoseconds
  }

  func lagged(_ nanoseconds: Int64) { observer.lagged(.nanoseconds(nanoseconds)) }
}

/// What a connection keeps that is observed.
final class Observation: Sendable {
  private let observer: any ReactorObserver
  private let id: UInt64
  private let identity: Locked<ConnectionIdentity>
  private let isAccepted: Bool

  /// `nil` if nobody observes.
  init?(on reactor: Reactor, _ id: UInt64, _ identity: Locked<ConnectionIdentity>, isAccepted: Bool) {
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

  /// The connection has ended, or did not come up.
  func ended(_ outcome: Result<CloseReport, SocketError>) {
    switch outcome {
    case .success(let report): observer.closed(connection, report)
    case .failure(let error): observer.connectFailed(connection, error)
    }
  }
}
