import ActorSockets
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct ProxyURLTests {
  private static let endpoint = Endpoint.host("proxy.example", port: 1080)

  private func proxy(_ text: String, password: String? = nil) throws -> Proxy {
    try ProxyURL.proxy(text) { password }
  }

  @Test func `A proxy is a kind and an endpoint`() throws {
    #expect(try proxy("socks5://proxy.example:1080") == .socks5(Self.endpoint))
    #expect(try proxy("http://proxy.example:1080/") == .http(Self.endpoint))
    #expect(try proxy("HTTP://[::1]:3128") == .http(.address(.ipv6(.loopback, port: 3128))))
  }

  @Test(arguments: [
    ("me:secret", "me", "secret"), ("me:", "me", ""), ("me:a:b", "me", "a:b"), ("me:a@b/c", "me", "a@b/c"),
    ("m%65:%40%3a%2F%25", "me", "@:/%"), ("m%C3%A4:%c3%B6", "mä", "ö"), ("m%3Ae:x", "m:e", "x"),
    ("me", "me", "from elsewhere"),
  ])
  func `A name and a password may be encoded, or the password be elsewhere`(
    text: String, username: String, password: String
  ) throws {
    let credentials = Proxy.Credentials(username: username, password: password)
    let found = try proxy("socks5://\(text)@proxy.example:1080", password: "from elsewhere")
    #expect(found == .socks5(Self.endpoint, credentials: credentials))
  }

  @Test(arguments: [
    "", "proxy.example:1080", "ftp://secret:secret@proxy.example:1080", "socks5://", "socks5://:1080",
    "socks5://proxy.example", "socks5://me:secret@proxy.example", "socks5://me:secret@proxy.example:99999",
    "socks5://me:secret@", "socks5://:secret@proxy.example:1080", "socks5://@proxy.example:1080",
    "socks5://me:secret%@proxy.example:1080", "socks5://me:secret%4@proxy.example:1080",
    "socks5://me:secret%+1@proxy.example:1080", "socks5://me:secret%zz@proxy.example:1080",
    "socks5://me:secret%ff@proxy.example:1080", "socks5://me@proxy.example:1080",
    "secret://me:secret@proxy.example:1080", "socks5:/me:secret@proxy.example:1080",
  ])
  func `Nonsense is refused with one line that has no password in it`(text: String) {
    let failure = #expect(throws: Failure.self) { try proxy(text) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.hasPrefix("--proxy") == true)
    #expect(failure?.message.contains("secret") == false)
    #expect(failure?.message.contains("\n") == false)
  }

  @Test func `A user without a password is told where to put it`() {
    let failure = #expect(throws: Failure.self) { try proxy("http://me@proxy.example:1") }
    #expect(failure?.message.contains("set SOCKCAT_PROXY_PASSWORD in the environment") == true)
  }
}
