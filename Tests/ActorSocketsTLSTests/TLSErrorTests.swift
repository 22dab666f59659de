import COpenSSL
import TestSupport
import Testing

@testable import ActorSockets
@testable import ActorSocketsTLS

@Suite struct TLSErrorTests {
  @Test func `Code that has an error of any type can ask whether the peer caused it`() {
    for code in [TLSError.Code.truncated, .alertReceived, .handshakeTimedOut, .internalError, .badFile] {
      let error = TLSError(code)
      #expect(SocketError.isCausedByPeer(error) == error.isCausedByPeer)
      let layered = SocketError(layer: error, operation: "read")
      #expect(SocketError.isCausedByPeer(layered) == error.isCausedByPeer)
    }
    #expect(SocketError.isCausedByPeer(TLSError(.truncated)))
    #expect(SocketError.isCausedByPeer(SocketError(.connectionReset, operation: "read")))
    #expect(!SocketError.isCausedByPeer(SocketError(.closed, operation: "read")))
    #expect(!SocketError.isCausedByPeer(CancellationError()))
  }

  @Test func `The sentence has what is known, in an order that can be read`() {
    #expect(
      TLSError(.truncated).description
        == "TLS: the connection ended without a close_notify alert; the last bytes may be missing")
    let error = TLSError(
      .expired, detail: "it is too old", reason: "certificate has expired", alert: "certificate_expired",
      certificate: "CN=a\nb")
    #expect(
      error.description
        == "TLS: it is too old (certificate \"CN=a\\nb\", alert certificate_expired, OpenSSL: certificate has expired)")
    #expect(error.certificate == "CN=a\nb")
    #expect(TLSError.Code.nameMismatch.description == "nameMismatch")
  }

  @Test func `Text that came from a peer is escaped and cut`() throws {
    let folder = try CertificateFolder()
    let name = String(repeating: "\u{1b}[31m", count: 30)
    let authority = try Authority(in: folder, "root")
    try authority.issue(
      "leaf", by: "root", subject: "/CN=\u{202e}evil\u{1b}[2J",
      extensions: "subjectAltName=DER:308195828192" + name.utf8.prefix(146).map(Self.hexadecimal).joined())
    let server = try ChainServer(chain: folder("leaf.pem"), key: folder("leaf.key"))
    let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("root.pem"))]))
    let error = try #require(try server.verdict(of: client, asking: "www.example.org").error)
    #expect(error.code == .nameMismatch)
    // One character that is not ASCII shows the cut.
    #expect(error.description.replacing("…", with: "").utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f })
    #expect(error.description.contains("\\u{1B}[31m"))
    #expect(error.description.utf8.count < 600)
  }

  @Test func `A name that is refused says for what the certificate is`() throws {
    let ends = try TwoEnds(client: Made.client(), server: Made.server(), serverName: "example.com")
    #expect(
      ends.handshake().client?.description
        == "TLS: the server's certificate is for \"example.org\", \"*.example.org\", \"192.0.2.1\", \"::1\", and not for "
        + "\"example.com\" (certificate \"CN=example.org\", alert bad_certificate, OpenSSL: hostname mismatch)")
  }

  @Test func `An expired certificate's error says until when it was valid`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    try authority.issue("leaf", by: "root", extensions: MatrixCase.name, dates: MatrixCase.past)
    let server = try ChainServer(chain: folder("leaf.pem"), key: folder("leaf.key"))
    let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("root.pem"))]))
    #expect(
      try server.verdict(of: client, asking: "www.example.org").error?.description
        == "TLS: the peer's certificate was valid until Jan  1 00:00:00 2021 GMT; it has to be renewed, or this machine's "
        + "clock is wrong (certificate \"CN=leaf\", alert certificate_expired, OpenSSL: certificate has expired)")
  }

  @Test func `Every number of OpenSSL's verification has a code and a text`() {
    for number in 1...Int32(X509_V_ERR_EC_KEY_EXPLICIT_PARAMS) {
      let error = VerificationFinding(number).error(serverName: nil)
      #expect(!error.reason.isEmpty)
      #expect(!error.description.contains("the connection failed"))
    }
  }

  @Test func `Every alert has a name and a sentence`() {
    for number in UInt8.min ... .max {
      #expect(!TLSAlert.name(number).isEmpty)
      #expect(TLSAlert.sentence(number).hasPrefix("the peer ended the connection"))
    }
    #expect(TLSAlert.name(48) == "unknown_ca")
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
  }
}
