import ActorSockets
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct ProxyOptionTests {
  @Test func `A client may go through a proxy, try again and send a header`() throws {
    var expected = ConnectOptions(endpoint: .host("a", port: 1))
    expected.connecting = ConnectingOptions(
      timeout: .seconds(2), proxy: .http(.host("b", port: 2), credentials: .init(username: "c", password: "d")),
      tries: 7)
    expected.proxyHeader = ProxyHeader(.v1)
    let words = ["--retry", "7", "--proxy", "http://c:d@b:2", "--timeout=2", "--send-proxy-protocol=v1"]
    #expect(try Command(parsing: ["connect", "a:1"] + words) == .connect(expected))
  }

  @Test(arguments: [
    ("v1:192.0.2.1:5,192.0.2.2:6", ProxyHeader.Version.v1, "192.0.2.1:5", "192.0.2.2:6"),
    ("v2:[2001:db8::1]:5,[2001:db8::2]:6", .v2, "[2001:db8::1]:5", "[2001:db8::2]:6"),
  ])
  func `The header may have addresses`(
    text: String, version: ProxyHeader.Version, source: String, destination: String
  ) throws {
    let header = ProxyHeader(
      version, source: try SocketAddress(parsing: source), destination: try SocketAddress(parsing: destination))
    #expect(try Words.Argument(option: "--send-proxy-protocol", text: text).proxyHeader() == header)
  }

  @Test func `A listener and a proxy may be behind load balancers`() throws {
    var options = ListenOptions(endpoint: .port(0))
    options.balancers = [try IPNetwork(parsing: "10.0.0.0/8"), try IPNetwork(parsing: "2001:db8::1")]
    options.isVerbose = true
    let words = [":0", "-v", "--require-proxy-protocol", "10.0.0.0/8,2001:db8::1"]
    #expect(try Command(parsing: ["listen"] + words) == .listen(options))
    options.mode = .forward(Forwarding(target: .host("a", port: 1), proxyHeader: .v2))
    #expect(try Command(parsing: ["proxy"] + words + ["a:1", "--send-proxy-protocol=v2"]) == .listen(options))
  }

  @Test(arguments: [
    (["connect", "a:1", "--proxy"], "--proxy needs a value"), (["connect", "a:1", "--proxy", "b:1"], "--proxy takes"),
    (["connect", "unix:/a", "--proxy", "http://b:1"], "a proxy cannot connect to unix:/a"),
    (["proxy", ":0", "unix:/a", "--proxy", "http://b:1"], "a proxy cannot connect to unix:/a"),
    (["connect", "a:1", "--retry", "0"], "--retry takes a number from 1"),
    (["connect", "a:1", "--send-proxy-protocol", "v3"], "takes v1 or v2"),
    (["connect", "a:1", "--send-proxy-protocol", "v2:"], "two addresses"),
    (["connect", "a:1", "--send-proxy-protocol", "v2:1.2.3.4:5"], "two addresses"),
    (["connect", "a:1", "--send-proxy-protocol", "v2:1.2.3.4:5,b:6"], "--send-proxy-protocol: "),
    (["connect", "a:1", "--send-proxy-protocol", "v2:1.2.3.4:5,unix:/a"], "unix socket"),
    (["proxy", ":0", "a:1", "--send-proxy-protocol", "v2:1.2.3.4:5,1.2.3.4:6"], "takes v1 or v2"),
    (["listen", ":0", "--send-proxy-protocol", "v2"], "no option of listen"),
    (["listen", ":0", "--require-proxy-protocol", "10.0.0.0/33"], "--require-proxy-protocol: "),
    (["listen", ":0", "--require-proxy-protocol", "10.0.0.0/8,"], "--require-proxy-protocol: "),
    (["connect", "a:1", "--require-proxy-protocol", "10.0.0.0/8"], "no option of connect"),
    (["listen", ":0", "--retry", "2"], "no option of listen"),
  ])
  func `Nonsense is refused with one line`(words: [String], part: String) {
    let failure = #expect(throws: Failure.self) { try Command(parsing: words) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.contains(part) == true, "\(failure?.message ?? "")")
    #expect(failure?.message.contains("\n") == false)
  }
}
