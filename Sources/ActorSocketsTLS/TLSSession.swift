internal import ActorSockets

/// The result of a completed handshake, and the identity of the peer.
public struct TLSSession: Sendable {
  /// The version of TLS.
  public let version: TLSVersion
  /// The cipher suite by its registered name, for example `TLS_AES_256_GCM_SHA384`.
  public let cipherSuite: String
  /// The group of the key exchange, for example `x25519`; `nil` if the version or the resumption does not use a group.
  public let group: String?
  /// The application protocol (ALPN, RFC 7301); `nil` if no protocol was chosen.
  public let applicationProtocol: String?
  /// The server's name. On a client, it is the name that the client asked for. On a server, it is the name that the
  /// client sent; `nil` if the client sent no name.
  ///
  /// A name from a client is unchecked text: escape it before you show it.
  public let serverName: String?
  /// The certificates of the peer, beginning with its own. On a server that resumed a session, only the peer's own.
  public let peerCertificates: [TLSCertificate]
  /// Whether an earlier session was resumed, so that certificates were not shown again.
  public let isResumed: Bool
  /// The result of the checks of the peer's certificate.
  ///
  /// If the certificate did not pass, the connection is up because of ``TLSVerification/dangerouslyNone`` or because a
  /// closure accepted it.
  public let verdict: TLSVerdict
  /// A value of 32 bytes that only the two ends of this connection know: `tls-exporter`, RFC 9266. `nil` if the
  /// connection uses TLS 1.2 without the extended master secret.
  public let channelBinding: [UInt8]?

  /// The peer's own certificate; `nil` if the peer showed no certificate.
  public var peerCertificate: TLSCertificate? { peerCertificates.first }

  var observed: ObservedHandshake {
    ObservedHandshake(
      version: "\(version)", cipherSuite: cipherSuite, applicationProtocol: applicationProtocol, isResumed: isResumed)
  }
}
