public import SocketSystem

/// The settings of a ``TLSContext``. The defaults are safe: TLS 1.2 or later, certificates fully verified.
///
/// ``TLSContext/init(_:)`` checks the configuration; setting a property does not.
public struct TLSConfiguration: Sendable, Configurable {
  /// The oldest version of TLS to negotiate.
  public var minimumVersion = TLSVersion.v12
  /// The newest version of TLS to negotiate.
  public var maximumVersion = TLSVersion.v13

  /// The roots that the certificates of peers must lead to.
  public var trustRoots: [TLSTrustRoots]
  /// Whether a chain may end at a certificate of ``trustRoots`` that another authority issued: an intermediate
  /// certificate, or the peer's own.
  ///
  /// If false, the default, a chain must end at a certificate that signed itself. A peer with another chain is refused with
  /// `.unknownAuthority`, and the error names this property. If true, names, validity and purposes are still checked.
  public var acceptsPartialChains = false
  /// The revocation lists that the certificates of peers are checked against. By default no list is checked.
  ///
  /// They are read when the context is made. ``TLSContext/reloadRevocationLists()`` reads them again.
  public var revocation = TLSRevocation.none
  /// How the certificates of peers are verified.
  public var verification = TLSVerification.full
  /// Whether clients refuse servers that do not staple a response of OCSP to their certificates: RFC 6066, section 8.
  ///
  /// If false, the default, clients still ask for a response, and verify the one that they get. They also refuse a server
  /// that sends no response although its certificate says that it does (must-staple, RFC 7633).
  public var requiresStaple = false
  /// The most certificates between a peer's certificate and the root, 0 to 100.
  public var maximumChainDepth = 10

  /// The certificate and key of this side.
  ///
  /// A server shows it to clients that ask for a name without an entry in ``identities``, or for no name. A client shows
  /// it to servers that ask for a certificate.
  public var identity: TLSIdentity?
  /// The certificates and keys of this side by server name.
  ///
  /// A key is a name, `"www.example.org"`, or a wildcard, `"*.example.org"`, whose asterisk stands for one label. Upper
  /// and lower case are the same.
  public var identities: [String: TLSIdentity] = [:]
  /// Chooses the certificate and key of this side before ``identities`` and ``identity`` are considered.
  ///
  /// It gets the server's name as the client sent it, or `nil` if the client sent no name. It returns `nil` to leave
  /// the choice to those two properties. It runs in the middle of a handshake and must not block.
  public var chooseIdentity: (@Sendable (_ serverName: String?) -> TLSIdentity?)?
  /// Whether servers ask their clients for certificates.
  ///
  /// If they do, set ``trustRoots`` to the authority of the clients. Otherwise a client is admitted with a certificate
  /// of any authority that the system trusts.
  ///
  /// A server sends the names of its authorities to its clients, which choose a certificate by them. It sends no names if
  /// ``trustRoots`` contains the system's roots or more than 64 certificates, or if their names have more than 16 KiB.
  public var clientCertificates = TLSClientCertificates.none

  /// The application protocols to negotiate (ALPN, RFC 7301), in order of preference, for example `["h2", "http/1.1"]`.
  ///
  /// A server chooses the first of its own that the client offers. If a client offers only other protocols, the server
  /// refuses it. A client continues even if the server chooses no protocol. If the array is empty, no protocol is offered
  /// or chosen.
  public var applicationProtocols: [String]

  /// The cipher suites of TLS 1.3 by name, in order of preference, separated by colons; `nil` for OpenSSL's default.
  ///
  /// For example `"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"`.
  public var cipherSuites: String?
  /// The ciphers of TLS 1.2. The default allows only ECDHE with authenticated encryption.
  public var ciphers = TLSCiphers.modern
  /// The groups for the key exchange, in order of preference; `nil` for OpenSSL's default.
  public var groups: TLSGroups?

  /// Whether later connections may resume a session, with tickets or, on servers of TLS 1.2, with stored sessions.
  public var allowsResumption = true
  /// The most sessions that a context stores for resumption, for its clients and for its servers each; 0 or more.
  public var sessionCacheSize = 1024
  /// How long a session can be resumed; more than zero.
  public var sessionLifetime: Duration = .seconds(2 * 60 * 60)
  /// How long a server encrypts tickets with the same key; more than zero. It decrypts them for as long again.
  public var ticketKeyLifetime: Duration = .seconds(12 * 60 * 60)

  /// How long a handshake may take, including the time that a closure of ``TLSVerification/custom(_:)`` takes; more
  /// than zero.
  public var handshakeTimeout: Duration = .seconds(10)
  /// How many messages without data a peer may send in a row after the handshake: key updates, tickets and requests for another
  /// handshake; at least 8. The count begins again when data moves in either direction.
  public var keyUpdateLimit = 64
  /// Whether a peer may end the connection without close_notify. An attacker can then cut off the end of what the peer
  /// sends.
  public var allowsTruncation = false
  /// Receives the lines of a key log file (`SSLKEYLOGFILE`), with which tools like Wireshark decrypt the traffic.
  ///
  /// Anyone who has these lines can read everything. The closure runs in the middle of a handshake and must not block.
  public var keyLog: (@Sendable (_ line: String) -> Void)?

  /// Makes a configuration with the defaults, which suit clients of public servers.
  public init() { self.init(identity: nil) }

  /// Makes a configuration with these settings and the defaults for all others.
  ///
  /// - Parameters:
  ///   - identity: The certificate and key of this side. Servers need one.
  ///   - trustRoots: The roots that the certificates of peers must lead to.
  ///   - applicationProtocols: The application protocols to negotiate, in order of preference.
  public init(
    identity: TLSIdentity? = nil, trustRoots: [TLSTrustRoots] = [.system], applicationProtocols: [String] = []
  ) {
    self.identity = identity
    self.trustRoots = trustRoots
    self.applicationProtocols = applicationProtocols
  }
}
