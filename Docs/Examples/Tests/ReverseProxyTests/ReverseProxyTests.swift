import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import ReverseProxy

@Suite struct ReverseProxyTests {
  @Test(.needs(.curl)) func `curl reaches the site that it names, and sees the certificate of that site`() async throws
  {
    try await within("curl has its answers") {
      let (one, two) = (try TestOrigin.saying("one"), try TestOrigin.saying("two"))
      let proxy = try await RunningProxy([one], others: [two])
      #expect(try await proxy.client.curl(proxy.client.url(site: "one.test")) == "one")
      #expect(try await proxy.client.curl(proxy.client.url(site: "two.test")) == "two")
      #expect(try await proxy.client.curl("-H", "Host: ONE.test.:443", proxy.client.url()) == "one")
      // A client may say the name with a dot at its end in the handshake, too.
      let dotted = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task { try await dotted.serve { try await proxy.service.proxy.serve($0, serverName: "One.Test.") } }
      let plain = try await TCPConnection.connect(to: .address(dotted.localAddresses[0]))
      try await plain.write(utf8: "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n")
      #expect(String(decoding: try await plain.read(until: "\r\n"), as: UTF8.self) == "HTTP/1.1 200 OK\r\n")
      await plain.close()
      await dotted.drain(within: .seconds(20))
      _ = try await serving.value
      // The certificate was for another site.
      #expect(try await proxy.client.status("-H", "Host: two.test", proxy.client.url()) == "421")
      #expect(try await proxy.client.status("-H", "Host: unknown.test", proxy.client.url()) == "421")
      let stranger = try Program(.curl, proxy.client.options + [proxy.client.url(site: "unknown.test")])
      #expect(try await stranger.exitStatus() == 35, "a failed handshake")
      #expect(try await proxy.stop().accepted == 6)
    }
  }

  @Test(.needs(.curl), .needs(.python)) func `Python's server is an origin, and a unix socket is one`() async throws {
    try await within("curl has its files") {
      let folder = try Folder()
      try folder.write("site/hello.txt", "hello\n".utf8)
      let python = try Program(
        .python, ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder.file("site")])
      try await python.waitForOutput(") ...")
      let port = try #require(await python.output.text.firstMatch(of: /port (\d+)/)).1
      let unix = try TestOrigin(at: .unix(path: folder.file("socket"))) { connection, _ in
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix")
        return true
      }
      let proxy = try await RunningProxy(["127.0.0.1:\(port)"], others: [unix])
      #expect(try await proxy.client.curl(proxy.client.url("/hello.txt")) == "hello\n")
      #expect(try await proxy.client.status(proxy.client.url("/nothing")) == "404")
      #expect(
        try await proxy.client.curl("--head", proxy.client.url("/hello.txt")).contains("\r\nContent-Length: 6\r\n"))
      #expect(try await proxy.client.curl(proxy.client.url(site: "two.test")) == "unix")
      _ = try await proxy.stop()
      await python.kill(SIGKILL)
    }
  }

  @Test(.needs(.curl)) func `The origin learns who the client is, and cannot be deceived`() async throws {
    try await within("curl has its answer") {
      let proxy = try await RunningProxy([TestOrigin.echo()])
      let head = try await proxy.client.curl(
        "-H", "X-Forwarded-For: 6.6.6.6", "-H", "Forwarded: for=6.6.6.6", "-H", "X_Forwarded_For: 6.6.6.6", "-H",
        "X-Real-IP: 6.6.6.6", "-H", "Proxy: http://6.6.6.6", "-H", "pROXY: http://6.6.6.6",
        "-H", "Connection: keep-alive, X-Secret, X-Forwarded-Proto, Host, close", "-H", "X-Secret: 1", "-H",
        "Keep-Alive: 5",
        "-H", "TE: trailers", "-H", "Upgrade: h2c", "-H", "Proxy-Connection: close", "-H", "X-Latin: caf\u{e9}",
        proxy.client.url("/a?b"))
      let authority = "one.test:\(proxy.client.address.port ?? 0)"
      #expect(head.hasPrefix("GET /a?b HTTP/1.1\r\nHost: \(authority)\r\n"))
      let fields = Dictionary(
        head.split(separator: "\r\n").dropFirst().map { line in
          let colon = line.firstIndex(of: ":") ?? line.startIndex
          return (String(line[..<colon]), String(line[colon...].dropFirst(2)))
        }, uniquingKeysWith: { $0 + " and " + $1 })
      #expect(fields["Host"] == authority)
      #expect(fields["X-Forwarded-For"] == "127.0.0.1")
      #expect(fields["X-Forwarded-Host"] == authority)
      #expect(fields["X-Forwarded-Proto"] == "https")
      #expect(fields["Forwarded"] == "for=127.0.0.1;host=\"\(authority)\";proto=https")
      #expect(fields["Via"] == "1.1 proxy")
      #expect(fields["X-Latin"] == "caf\u{e9}", "the bytes are the same")
      let names = [
        "host", "user-agent", "accept", "x-latin", "forwarded", "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-proto", "via",
      ]
      #expect(Set(fields.keys.map { $0.lowercased() }) == Set(names))
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `Bodies of both kinds arrive whole, in both directions`() async throws {
    try await within("curl has its answers") {
      let origin = try TestOrigin { connection, head in
        // The body goes back as it arrives.
        if let length = head.firstMatch(of: /Content-Length: (\d+)/).flatMap({ Int($0.1) }) {
          try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
          try await connection.pipe(exactly: length, to: connection)
          return true
        }
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try await connection.move(.chunked, to: connection, isChunked: true)
        return true
      }
      let proxy = try await RunningProxy([origin])
      let folder = try Folder()
      let bytes = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 11) }
      try folder.write("large.bin", bytes)
      for arguments in [["-H", "Transfer-Encoding: chunked"], []] {
        let file = folder.file("copy")
        _ = try await Program.run(
          .curl,
          proxy.client.options + arguments + [
            "-H", "Expect:", "-T", folder.file("large.bin"), "-o", file, proxy.client.url("/\(arguments.count)"),
          ])
        #expect(try folder.read("copy") == bytes)
      }
      #expect(origin.heads[0].contains("\r\nTransfer-Encoding: chunked\r\n") && origin.heads[0].hasPrefix("PUT /2"))
      _ = try await proxy.stop()
    }
  }

  @Test func `Chunks are passed on without their extensions and trailers`() async throws {
    try await within("the answer is there") {
      let proxy = try await RunningProxy([TestOrigin.echo()])
      let answer = try await proxy.client.answer(
        to: "POST / HTTP/1.1\r\nHost: one.test\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n"
          + "5;name=\"value\"\r\nhello\r\n0a \r\n, worlds!!\r\n000\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\n")
      #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nTransfer-Encoding: chunked\r\n"))
      #expect(answer.hasSuffix("\r\n\r\n5\r\nhello\r\na\r\n, worlds!!\r\n0\r\n\r\n"), "\(answer)")
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `Both sides keep their connections`() async throws {
    try await within("curl has its answers") {
      let origin = try TestOrigin.saying("hello\n")
      let proxy = try await RunningProxy([origin])
      let urls = (0..<50).map { proxy.client.url("/\($0)") }
      #expect(try await Program.run(.curl, proxy.client.options + urls) == String(repeating: "hello\n", count: 50))
      #expect(origin.connections == 1 && origin.heads.count == 50)
      // A request that must not be repeated gets a new connection, because the origin may close an old one at any time.
      #expect(try await proxy.client.curl("--data", "x", proxy.client.url()) == "hello\n")
      #expect(origin.connections == 2)
      #expect(try await proxy.stop().accepted == 2)
    }
  }

  @Test func `Requests that arrive together are answered in order, also those whose answers have no body`() async throws
  {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, head in
        let isEmpty = head.hasPrefix("HEAD ") || head.contains("/304 ") || head.contains("/204 ")
        let status = head.contains("/304 ") ? "304 Not Modified" : head.contains("/204 ") ? "204 No Content" : "200 OK"
        try await connection.write(
          utf8: "HTTP/1.1 \(status)\r\nContent-Length: 5\r\n\r\n\(isEmpty ? "" : "hello")")
        return true
      }
      let proxy = try await RunningProxy([origin])
      let requests = ["HEAD /", "GET /304", "GET /204", "GET /", "OPTIONS *"].map {
        "\($0) HTTP/1.1\r\nHost: one.test\r\n\r\n"
      }
      let answer = try await proxy.client.answer(
        to: requests.joined() + "GET https://one.test?a=b HTTP/1.1\r\nHost: two.test\r\nConnection: close\r\n\r\n")
      let parts = answer.split(separator: "HTTP/1.1 ").map {
        $0.split(separator: "\r\n\r\n", omittingEmptySubsequences: false)
      }
      #expect(parts.map { String($0[0].prefix(3)) } == ["200", "304", "204", "200", "200", "200"])
      #expect(parts.map { $0[1] } == ["", "", "", "hello", "hello", "hello"])
      // An answer to HEAD has the length of the body that GET would get. An answer that never has a body has no length.
      #expect(parts.map { $0[0].contains("\r\nContent-Length: 5") } == [true, false, false, true, true, true])
      #expect(origin.heads.last?.hasPrefix("GET /?a=b HTTP/1.1\r\nHost: one.test\r\n") == true)
      #expect(origin.connections == 1)
      _ = try await proxy.stop()
    }
  }

  @Test func `A body that ends with the origin's connection gets chunks, or ends with the client's connection`()
    async throws
  {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, _ in
        try await connection.write(utf8: "HTTP/1.0 200 OK\r\n\r\nhello")
        return false
      }
      let proxy = try await RunningProxy([origin])
      let request = "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n"
      let answer = try await proxy.client.answer(
        to: request + "GET / HTTP/1.0\r\nHost: one.test\r\nConnection: keep-alive\r\n\r\n")
      #expect(
        answer == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
          + "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `curl is told to continue by the origin, or has its answer without sending the body`()
    async throws
  {
    try await within("curl has its answers") {
      let refusing = try TestOrigin { connection, _ in
        try await connection.write(utf8: "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        return false
      }
      let proxy = try await RunningProxy([TestOrigin.echo()], others: [refusing])
      let folder = try Folder()
      try folder.write("body", [UInt8](repeating: 120, count: 2_000_000))
      let options =
        proxy.client.options + [
          "--include", "--expect100-timeout", "30", "-H", "Expect: 100-continue", "-T", folder.file("body"),
        ]
      let answer = try await Program.run(.curl, options + [proxy.client.url()])
      #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n") && answer.hasSuffix("xxxx"))
      let refused = try await Program.run(.curl, options + [proxy.client.url(site: "two.test")])
      #expect(refused.hasPrefix("HTTP/1.1 403 Forbidden\r\n") && refused.contains("\r\nConnection: close\r\n"))
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.websockets)) func `A WebSocket connection is passed through`() async throws {
    try await within("Python has its echo") {
      let script = Tool.script("echo.py")
      let server = try Program(.websockets, ["-u", script, "serve"])
      try await server.waitForOutput("ready")
      let port = try #require(await server.output.text.firstMatch(of: /port (\d+)/)).1
      let proxy = try await RunningProxy(["127.0.0.1:\(port)"])
      let output = try await Program.run(
        .websockets, [script, "\(proxy.client.address.port ?? 0)", proxy.client.authority.folder.file("ca.pem")])
      #expect(output == "done\n")
      #expect(try await proxy.stop().aborted == 0)
      await server.kill(SIGKILL)
    }
  }
}
