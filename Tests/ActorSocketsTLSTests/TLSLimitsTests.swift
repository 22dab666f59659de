import COpenSSL
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// The page with the limits has the values of the code about TLS. The other rows are compared in ActorSocketsTests.
@Suite struct TLSLimitsTests {
  private static let configuration = TLSConfiguration()
  private static let receiving = "ActorSocketsTLS/Transport/TLSTransport+Receiving.swift"

  @Test func `Every limit of TLS on the page is that of the code`() throws {
    let page = try LimitsPage.ofRepository()
    #expect(page.rows.count { $0.section == "TLS" } >= 20)
    let checks = Self.settings + Self.certificates + Self.transport
    for difference in page.differences(inSections: { $0 == "TLS" }, checks) {
      Issue.record(Comment(rawValue: difference))
    }
  }

  private static let settings: [LimitCheck] = [
    LimitCheck("time for a handshake, the program's closures included") { [.time(configuration.handshakeTimeout)] },
    LimitCheck("handshakes that run at a time in a loop over `connections(tls:)`") {
      [.number(try SourceText.number(#"handshakeLimit: Int = ([\d_]+)"#, in: "ActorSocketsTLS"))]
    },
    LimitCheck("versions") {
      [configuration.minimumVersion, configuration.maximumVersion].map { .text("\($0)".replacing("TLS ", with: "")) }
    },
    LimitCheck("key updates, tickets and other messages without data, in a row") {
      [.number(configuration.keyUpdateLimit)]
    },
    LimitCheck("sessions that a context keeps, for its clients and for its servers each") {
      [.number(configuration.sessionCacheSize)]
    },
    LimitCheck("sessions for one server") {
      let file = "ActorSocketsTLS/Engine/ClientSessions.swift"
      return [.number(try SourceText.number(#"limitForName = (\d+)"#, in: file))]
    },
    LimitCheck("time for which a session can be resumed") { [.time(configuration.sessionLifetime)] },
    LimitCheck("time for which a key encrypts tickets; it decrypts them for as long again") {
      [.time(configuration.ticketKeyLifetime)]
    },
  ]

  private static let certificates: [LimitCheck] = [
    LimitCheck("certificates between a peer's and the root") { [.number(configuration.maximumChainDepth)] },
    LimitCheck("bytes of a peer's certificates") { [.number(try mostBytesOfCertificates())] },
    LimitCheck("bytes of a client's first message; with the headers of its records") {
      [.number(ClientHello.limit), .number(ClientHello.recordLimit)]
    },
    LimitCheck("bytes of a client's certificate with which a server sends tickets") {
      [.number(TicketSize.largestCertificate)]
    },
    LimitCheck("bytes of a client's certificate with TLS 1.2, unless resumption is off") {
      [.number(TicketSize.largestCertificateInVersion12)]
    },
    LimitCheck("authorities that a server names to its clients; bytes of their names; if it trusts more, it names none")
    {
      [.number(ContextSettings.mostNamedRoots), .number(ContextSettings.mostBytesOfNamedRoots)]
    },
    LimitCheck("bytes of a file with certificates, keys or revocation lists") {
      [.number(try SourceText.number(#"limit = ([\d_< ]+)"#, in: "ActorSocketsTLS/Engine/Source.swift"))]
    },
    LimitCheck("time for a pipe with certificates or keys to end") {
      let file = "ActorSocketsTLS/Engine/Source.swift"
      return [.seconds(try SourceText.number(#"pipeTimeout: Duration = \.seconds\((\d+)\)"#, in: file))]
    },
    LimitCheck("bytes of a stapled OCSP response") { [.number(Staple.limit)] },
    LimitCheck("difference of clocks, for the times of a stapled response") { [.seconds(Staple.clockSkew)] },
    LimitCheck("age of a stapled response that does not say when the next one comes") {
      [.seconds(Staple.longestAge)]
    },
  ]

  private static let transport: [LimitCheck] = [
    LimitCheck("time to send an alert after `abort()`") {
      let file = "ActorSockets/Streams/StreamCore+Lifecycle.swift"
      return [.seconds(try SourceText.number(#"failureTimeout: Duration \{ \.seconds\((\d+)\) \}"#, in: file))]
    },
    LimitCheck("plaintext that no read has asked for") {
      [.number(try SourceText.number(#"readAheadLimit = ([\d_]+)"#, in: receiving))]
    },
    LimitCheck("the same, while a call waits for the peer's end") {
      [.number(try SourceText.number(#"readAheadLimitForEnd = ([\d_]+)"#, in: receiving))]
    },
    LimitCheck("plaintext encrypted by one call") {
      let file = "ActorSocketsTLS/Transport/TLSTransport+Sending.swift"
      return [.number(try SourceText.number(#"longestSend = ([\d_]+)"#, in: file))]
    },
    LimitCheck("plaintext encrypted with the same keys (TLS 1.3)") {
      [.number(try SourceText.number(#"keyUsageLimit = ([\d_< ]+)"#, in: "ActorSocketsTLS/Engine/TLSEngine.swift"))]
    },
    LimitCheck("each ring buffer: idle; handshake; a record; large writes") {
      let file = "ActorSocketsTLS/Engine/BIOPair.swift"
      let sizes = try ["small", "first", "large"].map {
        try SourceText.number(#"static let \#($0) = Sizes\(input: ([\d_]+), output: \d"#, in: file)
      }
      let records = try SourceText.number(
        #"largestOutput = (\d+) \* \(TLSRecord\.maximumPlaintext \+ TLSRecord\.maximumOverhead\)"#, in: file)
      return (sizes + [records * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)]).map { .number($0) }
    },
  ]

  /// OpenSSL's own limit, as a connection has it.
  private static func mostBytesOfCertificates() throws -> Int {
    let state = TLSHandshakeState(try Contexts.client(), .client(serverName: "server.test"))
    // SAFETY: the connection is freed here, and not used afterwards.
    let ssl = try unsafe state.context.makeSSL(for: state)
    defer { unsafe SSL_free(ssl) }
    return Int(unsafe copenssl_SSL_get_max_cert_list(ssl))
  }
}
