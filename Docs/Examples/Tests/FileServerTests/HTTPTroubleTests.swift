import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import FileServer

/// What the server does with clients that do not keep to the protocol, or take their time.
@Suite struct HTTPTroubleTests {
  @Test(arguments: [
    ("nonsense\r\n\r\n", 400), ("GET /\r\n\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400),
    ("GET hello HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), ("GET / FTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\(String(repeating: "a", count: 17_000)) HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    ("GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "a:\r\n", count: 100))\r\n", 431),
  ])
  func `Bytes that are no request are refused, and the connection ends`(request: String, status: Int) async throws {
    try await within("the connection ends") {
      let server = try RunningServer()
      let answer = try await server.answer(to: request)
      #expect(answer.hasPrefix("HTTP/1.1 \(status) ") && answer.contains("\r\nConnection: close\r\n"), "\(answer)")
      _ = try await server.stop()
    }
  }

  @Test func `Requests that arrive together are answered in order`() async throws {
    try await within("the answers are there") {
      let server = try RunningServer()
      let answer = try await server.answer(
        to: "\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\nHEAD /hello.txt HTTP/1.1\r\nHOST:a\r\n\r\n"
          + "GET http://a/sub%20folder/ HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
      )
      let parts = answer.split(separator: "HTTP/1.1 200 OK\r\n", omittingEmptySubsequences: false)
      #expect(parts.count == 4)
      #expect(parts.map { $0.split(separator: "\r\n\r\n").dropFirst().joined() } == ["", "hello\n", "", "<p>sub\n"])
      _ = try await server.stop()
    }
  }

  @Test func `A client of HTTP 1 0 has one answer, or more if it asks`() async throws {
    try await within("the answers are there") {
      let server = try RunningServer()
      #expect(
        try await server.answer(to: "GET /hello.txt HTTP/1.0\r\n\r\n").hasSuffix("\r\nConnection: close\r\n\r\nhello\n")
      )
      let both = try await server.answer(
        to: "GET /hello.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET / HTTP/1.0\r\n\r\n")
      #expect(both.contains("\r\nConnection: keep-alive\r\n") && both.hasSuffix("<p>home\n"))
      _ = try await server.stop()
    }
  }

  @Test func `A body is not read, and the connection ends`() async throws {
    try await within("the connection ends") {
      let server = try RunningServer()
      let smuggled = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"
      for field in ["Content-Length: \(smuggled.utf8.count)", "Transfer-Encoding: chunked"] {
        let answer = try await server.answer(to: "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n\(smuggled)")
        #expect(answer.split(separator: "HTTP/1.1").count == 1 && answer.contains("\r\nConnection: close\r\n"))
      }
      _ = try await server.stop()
    }
  }

  @Test func `A head that takes too long is refused, and an idle connection ends`() async throws {
    try await within("the connections end") {
      let slow = try RunningServer { $0.limits.head = .milliseconds(50) }
      #expect(try await slow.answer(to: "GET / HTT").hasPrefix("HTTP/1.1 408 "))
      #expect(try await slow.stop().finished == 1)
      let idle = try RunningServer { $0.limits.idle = .milliseconds(500 * patience) }
      #expect(try await idle.answer(to: "") == "")
      #expect(try await idle.answer(to: "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n").hasSuffix("\r\n\r\nhello\n"))
      #expect(try await idle.stop().finished == 2)
    }
  }

  @Test func `A client that receives too slowly loses its answer`() async throws {
    try await within("the handler ends") {
      let server = try RunningServer {
        $0.limits.grace = .milliseconds(100)
        // More than the kernel's buffers take at once.
        $0.limits.slowest = 1 << 40
      }
      // More than fits into the buffers of both kernels.
      try server.folder.write("site/huge.bin", [UInt8](repeating: 7, count: 64 << 20))
      let client = try await TCPConnection.connect(to: .address(server.address))
      try await client.write(utf8: "GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n")
      // The client does not read, so the handler ends, and the server resets the connection.
      let report = try await server.stop()
      #expect(report.failedByPeer == 1 && report.failed == 0)
      let reset = await #expect(throws: SocketError.self) { try await client.discard(exactly: 64 << 20) }
      #expect(reset?.code == .connectionReset)
      await client.close()
    }
  }

  @Test(.needs(.fileServer)) func `SIGTERM lets a download finish, and ends idle connections`() async throws {
    try await within("the program ends") {
      let folder = try Folder()
      let size = 64 << 20
      try folder.write("huge.bin", [UInt8](repeating: 7, count: size))
      let program = try Program(.fileServer, [folder.path, "127.0.0.1:0"])
      try await program.waitForOutput("\n")
      let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
      let server = try Endpoint(parsing: String(line.1))
      let idle = try await TCPConnection.connect(to: server)
      try await idle.write(utf8: "HEAD /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n")
      _ = try await idle.read(until: "\r\n\r\n")
      let download = try await TCPConnection.connect(to: server)
      try await download.write(utf8: "GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n")
      let head = try await download.read(until: "\r\n\r\n")
      #expect(String(decoding: head, as: UTF8.self).contains("Content-Length: \(size)\r\n"))
      await program.kill(SIGTERM)
      // The idle connection ends first. So the server is stopping while the download goes on.
      #expect(try await idle.read() == nil)
      try await download.discard(exactly: size)
      #expect(try await download.read() == nil)
      #expect(try await program.exitStatus() == 0)
      #expect(await program.output.whole.contains("stopped after 2 connections, 0 of them aborted"))
    }
  }
}
