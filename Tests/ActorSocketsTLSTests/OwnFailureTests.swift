import ActorSockets
import COpenSSL
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Whose fault an error is: only the peer's faults are the peer's.
@Suite struct OwnFailureTests {
  /// All reasons of libssl that this version of OpenSSL has a text for, and those that all libraries share.
  private static let reasons: [Int32] = {
    // The texts of libssl are loaded with the first context, or by this call.
    let loadsTexts: UInt64 = 0x20_0000
    _ = OPENSSL_init_ssl(loadsTexts, nil)
    let own = (1..<(1 << 12)).filter { number in
      // SAFETY: the text is static, or nil.
      let code = UInt(ERR_LIB_SSL) << 23 | UInt(number)
      return unsafe ERR_reason_error_string(code) != nil && UInt8(exactly: Int32(number) - SSL_AD_REASON_OFFSET) == nil
    }
    let shared = Array(1..<64) + Array(256..<300)
    return own.map { Int32($0) } + shared.map { Int32($0) | copenssl_ERR_RFLAG_COMMON }
  }()
  /// These concern what this side lacks, whatever it tells the peer.
  private static let alwaysOwn = [
    SSL_R_NO_CERTIFICATE_SET, SSL_R_NO_CERTIFICATE_ASSIGNED, SSL_R_CERT_CB_ERROR, copenssl_ERR_R_MALLOC_FAILURE,
  ]

  private func isCausedByPeer(_ code: TLSError.Code) -> Bool { TLSError(code).isCausedByPeer }

  @Test func `An error is the peer's unless OpenSSL tells the peer of an internal error`() {
    #expect(Self.reasons.count > 250)
    for reason in Self.reasons where !Self.alwaysOwn.contains(reason) {
      for alert in UInt8.min ... .max {
        let code = TLSError.Code(reason: reason, sentAlert: alert)
        #expect(isCausedByPeer(code) == (alert != 80), "reason \(reason), alert \(alert): \(code)")
      }
    }
    for reason in Self.alwaysOwn {
      for alert in [nil, 40, 80] as [UInt8?] {
        #expect(!isCausedByPeer(TLSError.Code(reason: reason, sentAlert: alert)), "reason \(reason)")
      }
    }
  }

  @Test func `Without an alert, the reasons that all libraries share are failures of this side`() {
    for reason in Self.reasons where !Self.alwaysOwn.contains(reason) {
      let isShared = reason & copenssl_ERR_RFLAG_COMMON != 0
      let code = TLSError.Code(reason: reason, sentAlert: nil)
      #expect(isCausedByPeer(code) != isShared, "reason \(reason): \(code)")
    }
  }

  @Test(arguments: [ERR_LIB_X509, ERR_LIB_X509V3, ERR_LIB_ASN1, ERR_LIB_PEM])
  func `A certificate that cannot be read is the peer's fault, unless memory ran out`(library: Int32) {
    for reason in Self.reasons {
      let isMemory = reason == copenssl_ERR_R_MALLOC_FAILURE
      let code = TLSError.Code(library: library, reason: reason, sentAlert: nil)
      #expect(code == (isMemory ? .internalError : .badCertificate), "reason \(reason)")
      #expect(TLSError.Code(library: library, reason: reason, sentAlert: 80) == .internalError)
    }
  }

  @Test func `Failures of other libraries are the peer's only if OpenSSL tells the peer so`() {
    #expect(TLSError.Code(library: ERR_LIB_EVP, reason: 100, sentAlert: 51) == .protocolError)
    #expect(TLSError.Code(library: ERR_LIB_EVP, reason: 100, sentAlert: 80) == .internalError)
    #expect(TLSError.Code(library: ERR_LIB_EVP, reason: copenssl_ERR_R_UNSUPPORTED, sentAlert: nil) == .internalError)
    #expect(TLSError.Code(library: ERR_LIB_SYS, reason: 24, sentAlert: nil) == .internalError)
  }

  @Test(arguments: TLSVersion.both)
  func `A message that OpenSSL cannot make is no fault of the client`(version: TLSVersion) throws {
    let ends = try TwoEnds(
      client: Made.client { $0.limit(to: version) }, server: Made.server { $0.clientCertificates = .optional })
    for number in 0..<64 {
      let root = try TLSLimitPeers.certificate(bytes: 1_200, number: number)
      // SAFETY: both live during the call, which copies the name.
      unsafe SSL_add_client_CA(ends.server.ssl, root.certificate.pointer)
    }
    let errors = ends.handshake()
    #expect(errors.server?.code == .internalError && errors.server?.isCausedByPeer == false, "\(errors)")
    #expect(errors.client?.code == .alertReceived && errors.client?.alert == "internal_error", "\(errors)")
  }

  // MARK: Large client certificates

  /// A client's certificate that has about this many bytes and signs itself.
  private static func certificate(bytes: Int) throws -> TLSIdentity {
    try TLSLimitPeers.identity(text: String(repeating: "a", count: bytes))
  }

  @Test(arguments: [1_000, 11_000, 20_000, 60_000, 66_000, 95_000], TLSVersion.both)
  func `A client certificate of any size below the limit is served, and resumed if it fits into a ticket`(
    bytes: Int, version: TLSVersion
  ) throws {
    let identity = try Self.certificate(bytes: bytes)
    for resumes in [true, false] {
      let (client, server) = try Made.contexts(withClient: identity, version, resumes: resumes)
      for isSecond in [false, true] {
        let ends = try TwoEnds(client: client, server: server)
        let errors = ends.handshake()
        if version == .v12, resumes, bytes > TicketSize.largestCertificateInVersion12 {
          #expect(errors.server?.code == .certificateTooLarge && errors.server?.alert == "bad_certificate", "\(errors)")
          #expect(errors.server?.description.contains("the limit is 64000") == true)
          continue
        }
        #expect(errors.client == nil && errors.server == nil, "\(errors)")
        #expect(ends.server.session.peerCertificate == identity.certificate)
        let fits = bytes < TicketSize.largestCertificate
        #expect(ends.server.session.isResumed == (isSecond && resumes && fits))
      }
    }
  }

  @Test(arguments: [1_000, 11_000, 20_000, 60_000], TLSVersion.both)
  func `A client with a large certificate is served again and again, whatever its ticket contains`(
    bytes: Int, version: TLSVersion
  ) async throws {
    let (client, server) = try Made.contexts(withClient: Self.certificate(bytes: bytes), version)
    try await within("all have talked") {
      for isFirst in [true, false, false] {
        let pair = try await CarrierKind.inMemory.pair()
        let answering = pair.server.startTLS(server, as: .server)
        let asking = pair.client.startTLS(client, as: .client(serverName: "example.org"))
        // The answer comes behind the tickets.
        try await answering.write([1])
        #expect(try await asking.read(exactly: 1) == [1])
        #expect(try await asking.session.isResumed == (!isFirst && bytes < TicketSize.largestCertificate))
        await close(asking, answering)
      }
    }
  }

  // MARK: The names of many roots

  @Test(
    arguments: [(63, 30), (64, 30), (200, 30), (10, 1_500), (12, 1_500), (63, 1_200), (20, 10_000)], TLSVersion.both)
  func `A server names all of its roots to clients, or none, and clients are served`(
    roots: (count: Int, bytes: Int), version: TLSVersion
  ) throws {
    let own = try Identities.client.get()
    let others = try (0..<roots.count).map { try TLSLimitPeers.certificate(bytes: roots.bytes, number: $0) }
    for withSystem in [false, true] {
      let server = try Made.server {
        $0.trustRoots = [.certificates([own.certificate] + others)] + (withSystem ? [.system] : [])
        $0.clientCertificates = .required
        $0.limit(to: version)
      }
      let ends = try TwoEnds.up(client: Made.client { $0.identity = own }, server: server)
      // SAFETY: the list belongs to the connection.
      let named = max(0, Int(unsafe OPENSSL_sk_num(SSL_get0_peer_CA_list(ends.client.ssl))))
      let areAll = roots.count < ContextSettings.mostNamedRoots && roots.count * roots.bytes < 16_000 && !withSystem
      #expect(named == (areAll ? roots.count + 1 : 0))
    }
  }
}
