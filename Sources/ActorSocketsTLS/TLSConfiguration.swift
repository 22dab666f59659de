/// What connections of a ``TLSContext`` do. The defaults are safe: TLS 1.2 or later, certificates verified in full.
///
/// A value without checks of its own: what is wrong in it is said by ``TLSContext/init(_:)``.
public struct TLSConfiguration: Sendable {
  /// The oldest version that is spoken.
  public var minimumVersion = TLSVersion.v12
  /// The newest version that is spoken.
  public var maximumVersion = TLSVersion.v13

  /// Where certificates of peers have to lead to.
  public var trustRoots: [TLSTrustRoots]
  /// How certificates of peers are judged.
  public var verification = TLSVerification.full
  /// How many certificates may be between a peer's and the root.
  public var maximumChainDepth = 10

  /// The certificate and key of this side: a server's for clients that ask for none of ``identities``, and a client's for
  /// servers that ask for one.
  public var identity: TLSIdentity?
  /// Certificates and keys by the server's name: exact ones as `"www.example.org"`, and wildcards as `"*.example.org"`,
  /// which stand for one label. Upper and lower case are the same.
  public var identities: [String: TLSIdentity] = [:]
  /// Asked first for a certificate and key, with the server's name as the client sent it, if it did. `nil` leaves it to
  /// ``identities`` and ``identity``. It runs in the middle of a handshake, so it must not wait for anything.
  public var chooseIdentity: (@Sendable (_ serverName: String?) -> TLSIdentity?)?
  /// Whether servers ask their clients for certificates. Set ``trustRoots`` to the authority of the clients then: whoever
  /// has a certificate of any authority that the system trusts would be let in otherwise.
  public var clientCertificates = TLSClientCertificates.none

  /// Protocols that may be spoken inside, most wanted first, for example `["h2", "http/1.1"]` (ALPN, RFC 7301). A server
  /// chooses the first of its own that the client offers, and refuses clients that offer none of them. Clients go on if
  /// the server chooses none. Empty: no choice is offered or made.
  public var applicationProtocols: [String]

  /// The cipher suites of TLS 1.3 by their names, most wanted first, separated by colons, for example
  /// `"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"`. `nil`: OpenSSL's.
  public var cipherSuites: String?
  /// The ciphers of TLS 1.2: ECDHE with authenticated encryption only, unless a wider list is named.
  public var ciphers = TLSCiphers.modern
  /// The groups for the key exchange in OpenSSL's notation, most wanted first, for example `"X25519:P-256"`. `nil`:
  /// OpenSSL's.
  public var groups: String?

  /// Whether later connections may take a short cut (tickets; sessions on servers of TLS 1.2).
  public var allowsResumption = true
  /// How many sessions are kept for resumption, on clients and on servers each.
  public var sessionCacheSize = 1024
  /// How long a session can be resumed.
  public var sessionLifetime: Duration = .seconds(2 * 60 * 60)
  /// How long a server seals tickets with the same key. A ticket can be opened for as long again.
  public var ticketKeyLifetime: Duration = .seconds(12 * 60 * 60)

  /// How long a handshake may take, its waiting for a closure of ``TLSVerification/custom(_:)`` included.
  public var handshakeTimeout: Duration = .seconds(10)
  /// How many key updates, tickets and requests for another handshake a peer may send after the handshake with no data in
  /// between, in either direction.
  public var keyUpdateLimit = 64
  /// Whether a peer may end the connection without saying so in TLS. An attacker can then cut off the end of what it sends.
  public var allowsTruncation = false
  /// Takes the lines of a key log file (`SSLKEYLOGFILE`), with which tools like Wireshark read the traffic. Whoever has
  /// them reads everything. It runs in the middle of a handshake, so it must not wait for anything.
  public var keyLog: (@Sendable (_ line: String) -> Void)?

  /// A configuration with these, and with defaults for all else.
  ///
  /// - Parameters:
  ///   - identity: The certificate and key of this side. Servers need one.
  ///   - trustRoots: Where certificates of peers have to lead to.
  ///   - applicationProtocols: Protocols that may be spoken inside.
  public init(
    identity: TLSIdentity? = nil, trustRoots: [TLSTrustRoots] = [.system], applicationProtocols: [String] = []
  ) {
    self.identity = identity
    self.trustRoots = trustRoots
    self.applicationProtocols = applicationProtocols
  }
}
