import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import ReverseProxy

/// What the proxy does when origins fail.
@Suite struct OriginTroubleTests {
  /// An address at which no server listens.
  private static func deadOrigin() async throws -> SocketAddress {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let address = listener.localAddresses[0]
    await listener.close()
    return address
  }

  /// An origin that reads the request, and ends the connection.
  private static func dyingOrigin() throws -> TestOrigin { try TestOrigin { _, _ in false } }

  @Test(.needs(.curl)) func `A request that no origin has received goes to another one`() async throws {
    try await within("curl has its answers") {
      let alive = try TestOrigin.saying("hello")
      let proxy = try await RunningProxy([Self.deadOrigin(), alive], others: [Self.deadOrigin()])
      for _ in 0..<2 {
        #expect(try await proxy.client.curl(proxy.client.url()) == "hello")
        #expect(try await proxy.client.curl("--data", "body", proxy.client.url()) == "hello")
      }
      #expect(try await proxy.client.status(proxy.client.url(site: "two.test")) == "502")
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `A request that an origin has dropped is repeated once, if that does no harm`() async throws
  {
    try await within("curl has its answers") {
      let (dying, alive) = (try Self.dyingOrigin(), try TestOrigin.saying("hello"))
      let dead = try Self.dyingOrigin()
      let proxy = try await RunningProxy([dying, alive], others: [dead])
      for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "GET"] {
        let option = method == "HEAD" ? ["--head"] : ["--request", method]
        let output = try await Program.run(.curl, proxy.client.options + option + [proxy.client.url()])
        #expect(output.contains("hello") || output.hasPrefix("HTTP/1.1 200 OK"))
      }
      #expect(alive.heads.count == 6 && !dying.heads.isEmpty)
      var statuses: [String] = []
      for _ in 0..<4 { statuses.append(try await proxy.client.status("--request", "POST", proxy.client.url())) }
      #expect(statuses.sorted() == ["200", "200", "502", "502"])
      #expect(try await proxy.client.status(proxy.client.url(site: "two.test")) == "502")
      #expect(dead.heads.count == 2)
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `An origin that does not answer is given up, and asked only once`() async throws {
    try await within("curl has its answer") {
      let silent = try TestOrigin { connection, _ in
        _ = try? await connection.read()
        return false
      }
      let proxy = try await RunningProxy([silent, silent]) { $0.answer = .milliseconds(300) }
      #expect(try await proxy.client.status(proxy.client.url()) == "504")
      #expect(silent.heads.count == 1)
      _ = try await proxy.stop()
    }
  }

  @Test(
    .needs(.curl), arguments: ["Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"])
  func `An answer that is cut off reaches the client as one that is cut off`(answer: String) async throws {
    try await within("curl has noticed") {
      let origin = try TestOrigin { connection, _ in
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\n\(answer)")
        return false
      }
      let proxy = try await RunningProxy([origin])
      let curl = try Program(.curl, proxy.client.options + [proxy.client.url()])
      let status = try await curl.exitStatus()
      #expect([18, 56].contains(status))
      #expect(origin.heads.count == 1)
      _ = try await proxy.stop()
    }
  }

  @Test(arguments: [
    "nonsense\r\n\r\n", "HTTP/1.1 200 OK\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: \(String(repeating: "b", count: 17_000))\r\n\r\n",
  ])
  func `An answer that is not valid becomes 502, and the client's connection stays open`(bytes: String) async throws {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, _ in
        try await connection.write(utf8: bytes)
        return true
      }
      let proxy = try await RunningProxy([origin])
      let request = "GET / HTTP/1.1\r\nHost: one.test\r\n"
      let answer = try await proxy.client.answer(to: "\(request)\r\n\(request)Connection: close\r\n\r\n")
      #expect(answer.components(separatedBy: "HTTP/1.1 502 Bad Gateway\r\n").count == 3, "\(answer)")
      #expect(origin.heads.count == 2 && origin.connections == 2)
      _ = try await proxy.stop()
    }
  }

  @Test func `A connection that the origin has closed, or on which it has sent too much, is not used again`()
    async throws
  {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, head in
        // The second request on a connection is not answered.
        guard head.hasPrefix("GET /first ") else { return false }
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
        return true
      }
      let talkative = try TestOrigin { connection, _ in
        try await connection.write(
          utf8: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngoodHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        return true
      }
      let proxy = try await RunningProxy([origin], others: [talkative])
      let first = try await proxy.client.connect()
      for _ in 0..<3 {
        try await first.write(utf8: "GET /first HTTP/1.1\r\nHost: one.test\r\n\r\n")
        #expect(String(decoding: try await first.read(until: "first"), as: UTF8.self).hasPrefix("HTTP/1.1 200 OK\r\n"))
      }
      await first.close()
      #expect(origin.connections == 1)
      // It is dropped on the connection that waits, and then on a new one.
      #expect(
        try await proxy.client.answer(to: "GET /second HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")
          .contains(" 502 "))
      #expect(origin.heads.count == 5 && origin.connections == 2)
      let two = try await proxy.client.connect(to: "two.test")
      for _ in 0..<3 {
        try await two.write(utf8: "GET / HTTP/1.1\r\nHost: two.test\r\n\r\n")
        let answer = String(decoding: try await two.read(until: "\r\n\r\n") + two.read(exactly: 4), as: UTF8.self)
        #expect(answer.hasSuffix("\r\n\r\ngood"))
      }
      #expect(talkative.connections == 3)
      await two.close()
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `An origin that fails its checks gets no requests, until it passes them again`()
    async throws
  {
    try await within("curl has its answers") {
      let (one, two) = (try TestOrigin.saying("one"), try TestOrigin.saying("two"))
      let proxy = try await RunningProxy([one, two], check: "/health") { $0.checkInterval = .milliseconds(20) }
      one.isWell = false
      await proxy.lines.wait(for: "the origin \(one) is down")
      let before = one.heads.count
      for _ in 0..<5 { #expect(try await proxy.client.curl(proxy.client.url()) == "two") }
      #expect(one.heads.count == before)
      two.isWell = false
      await proxy.lines.wait(for: "the origin \(two) is down")
      let answer = try await proxy.client.curl("--include", proxy.client.url())
      #expect(answer.hasPrefix("HTTP/1.1 503 Service Unavailable\r\n") && answer.contains("\r\nRetry-After: 5\r\n"))
      one.isWell = true
      await proxy.lines.wait(for: "the origin \(one) is up")
      for _ in 0..<5 { #expect(try await proxy.client.curl(proxy.client.url()) == "one") }
      _ = try await proxy.stop()
    }
  }

  @Test func `An interim answer is passed on, but not to a client of HTTP 1 0`() async throws {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, _ in
        try await connection.write(
          utf8: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return true
      }
      let proxy = try await RunningProxy([origin])
      let new = try await proxy.client.answer(to: "GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")
      #expect(new.hasPrefix("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"))
      let old = try await proxy.client.answer(to: "GET / HTTP/1.0\r\nHost: one.test\r\n\r\n")
      #expect(old == "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      _ = try await proxy.stop()
    }
  }
}
