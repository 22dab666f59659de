internal import ActorSockets
internal import ActorSocketsObservers
internal import Tracing

extension Span {
  /// Records an error, which makes the span one that failed.
  func fail(_ error: any Error) {
    recordError(error)
    updateAttributes { $0[AttributeName.errorType] = errorType(error) }
    setStatus(SpanStatus(code: .error, message: "\(error)"))
  }
}

extension SpanAttributes {
  /// Sets what is known of a connection.
  mutating func set(_ connection: ObservedConnection) {
    self[AttributeName.connection] = Int64(clamping: connection.id)
    if let label = connection.label { self[AttributeName.label] = label }
    set(connection.localAddress, AttributeName.localAddress, AttributeName.localPort)
    set(connection.remoteAddress, AttributeName.peerAddress, AttributeName.peerPort)
    guard let address = connection.remoteAddress ?? connection.localAddress else { return }
    self["network.transport"] = address.isUnix ? "unix" : "tcp"
    if !address.isUnix { self["network.type"] = address.unmapped.isIPv4 ? "ipv4" : "ipv6" }
  }

  private mutating func set(_ address: SocketAddress?, _ hostName: String, _ portName: String) {
    if let host = address?.host { self[hostName] = host }
    if let port = address?.port { self[portName] = Int64(port) }
  }

  /// Sets what a handshake has negotiated.
  mutating func set(_ handshake: ObservedHandshake) {
    // The version is a text such as "TLS 1.3".
    let parts = handshake.version.split(separator: " ")
    if parts.count == 2 {
      self["tls.protocol.name"] = parts[0].lowercased()
      self["tls.protocol.version"] = String(parts[1])
    }
    self["tls.cipher"] = handshake.cipherSuite
    if let name = handshake.applicationProtocol { self["tls.next_protocol"] = name }
    self["tls.resumed"] = handshake.isResumed
    self["tls.established"] = true
  }
}
