package import ActorSockets

// What log lines and spans have in common: the names of OpenTelemetry's semantic conventions
// (https://opentelemetry.io/docs/specs/semconv/registry/attributes/network/).

/// The name of an attribute that says something about a connection.
package enum AttributeName {
  /// The number of the connection. It is no name of OpenTelemetry's.
  package static let connection = "connection.id"
  /// The label that the program has given to the connection. It is no name of OpenTelemetry's.
  package static let label = "connection.label"
  package static let localAddress = "network.local.address"
  package static let localPort = "network.local.port"
  package static let peerAddress = "network.peer.address"
  package static let peerPort = "network.peer.port"
  package static let errorType = "error.type"
}

extension SocketAddress {
  /// The IP address without its port, or the name of a unix socket; `nil` for a unix socket without a name.
  package var host: String? {
    if case .unix(let path) = self { return path.isUnnamed ? nil : path.description }
    return IPAddress(self).map { $0.description }
  }
}

extension CloseReport.Reason {
  /// The reason as `error.type`: the code of the error that operations on the connection throw. `nil` if no error ended the connection.
  package var errorType: String? {
    switch self {
    case .local, .remote: nil
    case .reset: SocketError.Code.connectionReset.description
    case .timedOut: SocketError.Code.timedOut.description
    case .peerTooSlow: SocketError.Code.peerTooSlow.description
    case .error(let error): error.code.description
    @unknown default: "\(self)"
    }
  }

  /// The reason in words.
  package var text: String {
    switch self {
    case .local: "closed by this side"
    case .remote: "closed after the peer had finished"
    case .reset: "reset by the peer"
    case .timedOut: "the peer stopped answering"
    case .peerTooSlow: "the peer did not read fast enough"
    case .error(let error): "failed: \(error)"
    @unknown default: "\(self)"
    }
  }
}

/// Returns the value of `error.type` for an error: the code of a ``SocketError``, the type of any other error. Of a ``PipeError``, it is
/// that of the error of its stream.
package func errorType(_ error: any Error) -> String {
  let error = (error as? PipeError)?.underlyingError ?? error
  return (error as? SocketError)?.code.description ?? String(reflecting: type(of: error))
}
