import COpenSSL
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// The page with the limits has the values of the code about TLS that no boundary tries. The other rows are compared in ActorSocketsTests.
@Suite struct TLSLimitsTests {
  private static let configuration = TLSConfiguration()
  private static let receiving = "ActorSocketsTLS/Transport/TLSTransport+Receiving.swift"

  @Test func `Every limit of TLS on the page is that of the code`() throws {
    let page = try LimitsPage.ofRepository()
    #expect(page.rows.count { $0.section == "TLS" } >= 20)
    let tried = TLSLimitBoundaries.all.map { ($0.what, "a boundary tries the number") }
    let unchecked = Dictionary(tried) { one, _ in one }
    for difference in page.differences(inSections: { $0 == "TLS" }, Self.checks, unchecked: unchecked) {
      Issue.record(Comment(rawValue: difference))
    }
  }

  private static let checks: [LimitCheck] = [
    LimitCheck("versions") {
      [configuration.minimumVersion, configuration.maximumVersion].map { .text("\($0)".replacing("TLS ", with: "")) }
    },
    LimitCheck("bytes of a peer's certificates") { [.number(try mostBytesOfCertificates())] },
    LimitCheck("time for a pipe with certificates or keys to end") {
      let file = "ActorSocketsTLS/Engine/Source.swift"
      return [.seconds(try SourceText.number(#"pipeTimeout: Duration = \.seconds\((\d+)\)"#, in: file))]
    },
    LimitCheck("difference of clocks, for the times of a stapled response") { [.seconds(Staple.clockSkew)] },
    LimitCheck("age of a stapled response that does not say when the next one comes") {
      [.seconds(Staple.longestAge)]
    },
    LimitCheck("plaintext that no read has asked for") {
      [.number(try SourceText.number(#"readAheadLimit = ([\d_]+)"#, in: receiving))]
    },
    LimitCheck("the same, while a call waits for the peer's end") {
      [.number(try SourceText.number(#"readAheadLimitForEnd = ([\d_]+)"#, in: receiving))]
    },
    LimitCheck("plaintext encrypted with the same keys (TLS 1.3)") {
      [.number(try SourceText.number(#"keyUsageLimit = ([\d_< ]+)"#, in: "ActorSocketsTLS/Engine/TLSEngine.swift"))]
    },
  ]

  private static func mostBytesOfCertificates() throws -> Int {
    let state = TLSHandshakeState(try Contexts.client(), .client(serverName: "server.test"))
    // SAFETY: the connection is freed here, and not used afterwards.
    let ssl = try unsafe state.context.makeSSL(for: state)
    defer { unsafe SSL_free(ssl) }
    return Int(unsafe copenssl_SSL_get_max_cert_list(ssl))
  }
}
