import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// The choice of a protocol inside of TLS, RFC 7301.
@Suite struct ApplicationProtocolTests {
  struct Case: CustomTestStringConvertible {
    let client: [String]
    let server: [String]
    let chosen: String?
    var testDescription: String { "\(client) and \(server)" }
  }

  @Test(arguments: [
    Case(client: ["h2", "http/1.1"], server: ["h2", "http/1.1"], chosen: "h2"),
    Case(client: ["h2", "http/1.1"], server: ["http/1.1", "h2"], chosen: "http/1.1"),
    Case(client: ["http/1.1"], server: ["h2", "http/1.1"], chosen: "http/1.1"),
    Case(client: ["h2"], server: [], chosen: nil),
    Case(client: [], server: ["h2"], chosen: nil),
    Case(client: ["h2c", "h", "h2"], server: ["h2"], chosen: "h2"),
    Case(
      client: [String(repeating: "x", count: 255)], server: [String(repeating: "x", count: 255)],
      chosen: String(repeating: "x", count: 255)),
  ])
  func `The server takes the first of its own that the client offers`(choice: Case) throws {
    for version in [TLSVersion.v12, .v13] {
      let ends = try TwoEnds.up(
        client: Made.client { $0.applicationProtocols = choice.client },
        server: Made.server {
          $0.applicationProtocols = choice.server
          $0.maximumVersion = version
        })
      #expect(ends.client.session.applicationProtocol == choice.chosen)
      #expect(ends.server.session.applicationProtocol == choice.chosen)
    }
  }

  @Test func `Nothing in common ends the handshake with an alert`() throws {
    let ends = try TwoEnds(
      client: Made.client { $0.applicationProtocols = ["smtp\n", "imap"] },
      server: Made.server { $0.applicationProtocols = ["h2"] })
    let errors = ends.handshake()
    #expect(errors.server?.code == .noApplicationProtocol && errors.server?.alert == "no_application_protocol")
    #expect(errors.server?.description.contains("\"smtp\\n\", \"imap\"") ?? false)
    #expect(errors.client?.code == .noApplicationProtocol && errors.client?.alert == "no_application_protocol")
  }

  @Test func `A server that chooses what was not offered is refused`() throws {
    let ends = try TwoEnds(
      client: Made.client { $0.applicationProtocols = ["h2"] },
      server: Made.server { $0.applicationProtocols = ["h2"] })
    let context = unsafe SSL_get_SSL_CTX(ends.server.ssl)
    unsafe SSL_CTX_set_alpn_select_cb(
      context,
      { _, chosen, length, _, _, _ in
        unsafe chosen?.pointee = UnsafePointer(ApplicationProtocolTests.unasked)
        unsafe length?.pointee = 4
        return SSL_TLSEXT_ERR_OK
      }, nil)
    let errors = ends.handshake()
    #expect(errors.client?.code == .protocolError)
  }

  // SAFETY: never changed, and never freed.
  nonisolated(unsafe) private static let unasked: UnsafeMutablePointer<UInt8> = {
    let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: 4)
    for (index, byte) in "imap".utf8.enumerated() { unsafe bytes[index] = byte }
    return unsafe bytes
  }()
}
