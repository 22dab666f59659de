import ActorSockets
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct TLSCommandTests {
  private func connectOptions(_ words: [String]) throws -> TLSOptions? {
    guard case .connect(let options) = try Command(parsing: ["connect"] + words) else { return nil }
    return options.tls
  }

  @Test func `A client may say whom to trust, what to speak and who it is`() throws {
    var expected = TLSOptions(.client)
    expected.isOn = true
    expected.authorities = "ca.pem"
    expected.serverName = "example.org"
    expected.applicationProtocols = ["h2", "http/1.1"]
    expected.certificate = "client.pem"
    expected.key = "client.key"
    let words = ["--ca=ca.pem", "--server-name", "example.org", "--alpn", "h2,http/1.1", "--cert", "client.pem"]
    #expect(try connectOptions(["--tls", "a:1"] + words + ["--key=client.key", "-v"]) == expected)
  }

  @Test(arguments: ["smtp", "imap", "postgres"])
  func `A protocol to begin with means TLS`(name: String) throws {
    let options = try #require(try connectOptions(["a:1", "--starttls", name]))
    #expect(options.startTLS?.rawValue == name)
    #expect(options.isWanted)
    #expect(try connectOptions(["a:1", "--starttls", name, "--tls"])?.isWanted == true)
  }

  @Test(arguments: [
    ("example.org:443", nil, "example.org"), ("127.0.0.1:1", nil, "127.0.0.1"), ("[::1]:1", nil, "::1"),
    ("[fe80::1%eth0]:1", nil, "fe80::1"), (":1", nil, "localhost"), ("unix:/a", "b", "b"), ("a:1", "b", "b"),
  ])
  func `The certificate must be for the endpoint's name unless another is said`(
    endpoint: String, other: String?, name: String
  ) throws {
    var options = TLSOptions(.client)
    options.serverName = other
    #expect(try options.name(of: Endpoint(parsing: endpoint)) == name)
  }

  @Test func `A server has a certificate and may ask for others`() throws {
    let words = [
      "listen", ":0", "--http", "--tls", "--cert", "a", "--key", "b", "--client-ca", "c", "--alpn", "d", "-v",
    ]
    guard case .listen(let options) = try Command(parsing: words) else { throw Failure.usage("it is another command") }
    var expected = TLSOptions(.server)
    expected.isOn = true
    (expected.certificate, expected.key, expected.authorities) = ("a", "b", "c")
    expected.applicationProtocols = ["d"]
    #expect(options.tls == expected)
  }

  @Test(arguments: [
    (["connect", "a:1", "--ca", "f"], "--ca is about TLS: it needs --tls or --starttls"),
    (["connect", "a:1", "--alpn", "h2"], "--alpn is about TLS"),
    (["connect", "a:1", "--cert", "f"], "--cert is about TLS"),
    (["connect", "a:1", "--key", "f"], "--key is about TLS"),
    (["connect", "a:1", "--insecure"], "--insecure is about TLS"),
    (["connect", "a:1", "--server-name", "n"], "--server-name is about TLS"),
    (["connect", "a:1", "--tls", "--key", "f"], "--key needs the certificate"),
    (["connect", "a:1", "--tls", "--insecure", "--ca", "f"], "no use for --ca"),
    (["connect", "unix:/a", "--tls"], "--server-name"), (["connect", "a:1", "--tls", "--alpn", "h2,"], "commas"),
    (["connect", "a:1", "--tls", "--alpn"], "needs a value"), (["connect", "a:1", "--tls=1"], "--tls takes no value"),
    (["connect", "a:1", "--starttls", "ftp"], "smtp, imap or postgres"),
    (["connect", "a:1", "--tls", "--client-ca", "f"], "no option of connect"),
    (["listen", ":0", "--tls"], "--cert and --key"), (["listen", ":0", "--cert", "f"], "it needs --tls (see"),
    (["listen", ":0", "--client-ca", "f"], "--client-ca is about TLS"),
    (["listen", ":0", "--tls", "--cert", "f", "--ca", "f"], "no option of listen"),
    (["listen", ":0", "--starttls=smtp"], "no option of listen"),
    (["listen", ":0", "--tls", "--cert", "f", "--insecure"], "no option of listen"),
    (["proxy", ":0", "a:1", "--tls"], "no option of proxy"),
  ])
  func `Options that do not go together are refused with one line`(words: [String], part: String) {
    let failure = #expect(throws: Failure.self) { try Command(parsing: words) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.contains(part) == true, "\(failure?.message ?? "")")
    #expect(failure?.message.contains("\n") == false)
  }
}
