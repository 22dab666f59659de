internal import ActorSockets

/// What one can ask of a connection whose handshake is done.
public struct TLSSession: Sendable {
  /// The version that is spoken.
  public let version: TLSVersion
  /// The cipher suite by its registered name, for example `TLS_AES_256_GCM_SHA384`.
  public let cipherSuite: String
  /// The group of the key exchange, for example `x25519`; `nil` if the version or a resumption goes without.
  public let group: String?
  /// The protocol that was agreed on inside (ALPN); `nil` if none was.
  public let applicationProtocol: String?
  /// The server's name: as a client the one that was asked for, as a server the one that the client sent, if it did. Text
  /// from a client is as it came: escape it before it is shown to anyone.
  public let serverName: String?
  /// The certificates of the peer, its own first. A server that resumed a session has that one alone.
  public let peerCertificates: [TLSCertificate]
  /// Whether an earlier session was resumed, so that certificates were not shown again.
  public let isResumed: Bool
  /// What the checks of the peer's certificate came to; if it did not pass, the connection is up because
  /// ``TLSVerification/dangerouslyNone`` or a closure let it.
  public let verdict: TLSVerdict
  /// What both ends of this one connection have in common and nobody between them (`tls-exporter`, RFC 9266): 32 bytes;
  /// `nil` where TLS 1.2 is spoken without the extended master secret.
  public let channelBinding: [UInt8]?

  /// The peer's own certificate.
  public var peerCertificate: TLSCertificate? { peerCertificates.first }

  /// The same for an observer.
  var observed: ObservedHandshake {
    ObservedHandshake(
      version: "\(version)", cipherSuite: cipherSuite, applicationProtocol: applicationProtocol, isResumed: isResumed)
  }
}
