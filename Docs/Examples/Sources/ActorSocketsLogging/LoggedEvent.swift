internal import ActorSockets
internal import ActorSocketsObservers
internal import Logging

/// An event, and how it is logged. The text is made by the writer, not on the reactor's thread.
enum LoggedEvent: Sendable {
  case connected(ObservedConnection)
  case accepted(ObservedConnection)
  case connectFailed(ObservedConnection, SocketError)
  case connectWillRetry(ObservedConnection, SocketError, Duration)
  case closed(ObservedConnection, CloseReport)
  case handshakeDone(ObservedConnection, ObservedHandshake)
  case handshakeFailed(ObservedConnection, any Error)
  case handlerFailed(ObservedConnection, any Error)
  case datagramsDropped(UInt64, ObservedConnection)
  case lagged(Duration)

  var level: Logger.Level {
    switch self {
    case .connected, .accepted, .handshakeDone: .debug
    case .closed(_, let report): Self.level(of: report.reason)
    case .connectWillRetry: .info
    case .connectFailed(_, let error): Self.level(of: error)
    case .handshakeFailed: .notice
    case .handlerFailed(_, let error): SocketError.isCausedByPeer(error) ? .info : .error
    case .datagramsDropped, .lagged: .warning
    }
  }

  private static func level(of reason: CloseReport.Reason) -> Logger.Level {
    switch reason {
    case .local, .remote: .debug
    case .reset, .timedOut, .peerTooSlow: .info
    case .error: .notice
    @unknown default: .notice
    }
  }

  private static func level(of error: SocketError) -> Logger.Level {
    switch error.code {
    case .closed: .debug
    case .invalidProxyHeader: .info
    default: .notice
    }
  }

  var message: Logger.Message {
    switch self {
    case .connected: "connected"
    case .accepted: "accepted"
    case .connectFailed: "connecting failed"
    case .connectWillRetry(_, _, let delay): "connecting failed, next try in \(delay)"
    case .closed(_, let report): "ended: \(report.reason.text)"
    case .handshakeDone(_, let handshake): "encrypted: \(handshake.description)"
    case .handshakeFailed: "the TLS handshake failed"
    case .handlerFailed: "the handler failed"
    case .datagramsDropped(let count, _): "\(count) datagrams were dropped, because they were received too slowly"
    case .lagged(let lag): "the reactor was held up for \(lag)"
    }
  }

  var error: (any Error)? {
    switch self {
    case .connectFailed(_, let error), .connectWillRetry(_, let error, _): error
    case .handshakeFailed(_, let error), .handlerFailed(_, let error): error
    case .closed(_, let report):
      if case .error(let error) = report.reason { error } else { nil }
    default: nil
    }
  }

  private var connection: ObservedConnection? {
    switch self {
    case .connected(let connection), .accepted(let connection), .connectFailed(let connection, _): connection
    case .connectWillRetry(let connection, _, _), .closed(let connection, _): connection
    case .handshakeDone(let connection, _), .handshakeFailed(let connection, _): connection
    case .handlerFailed(let connection, _), .datagramsDropped(_, let connection): connection
    case .lagged: nil
    }
  }

  var metadata: Logger.Metadata {
    guard let connection else { return [:] }
    var metadata: Logger.Metadata = [AttributeName.connection: "\(connection.id)"]
    if let label = connection.label { metadata[AttributeName.label] = "\(label)" }
    if let host = connection.localAddress?.host { metadata[AttributeName.localAddress] = "\(host)" }
    if let port = connection.localAddress?.port { metadata[AttributeName.localPort] = "\(port)" }
    if let host = connection.remoteAddress?.host { metadata[AttributeName.peerAddress] = "\(host)" }
    if let port = connection.remoteAddress?.port { metadata[AttributeName.peerPort] = "\(port)" }
    if case .closed(_, let report) = self {
      metadata["bytes.received"] = "\(report.bytesReceived)"
      metadata["bytes.sent"] = "\(report.bytesSent)"
      if report.bytesUnsent > 0 { metadata["bytes.unsent"] = "\(report.bytesUnsent)" }
    }
    return metadata
  }
}
