import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import ReverseProxy

/// What the proxy does with clients that do not keep to the protocol, or take their time.
@Suite struct ClientTroubleTests {
  @Test(arguments: [
    // Two answers to the question where the body ends.
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 5, 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: +5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: \r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 99999999999999999999\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length : 5\r\n\r\nhello", 400),
    (
      "POST / HTTP/1.1\r\nHost: one.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400
    ),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\nHost: one.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.0\r\nHost: one.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    // Lines that do not end as they should.
    ("GET / HTTP/1.1\nHost: one.test\n\n", 400), ("GET / HTTP/1.1\r\nHost: one.test\r\nA: b\nC: d\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: one.test\r\nA: b\rC: d\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: one.test\r\nA: b\r\n c\r\n\r\n", 400),
    // No name of the server, two names, or a text that cannot be a name.
    ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: one.test\r\nHost: one.test\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: one.test/\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a@one.test\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: \"one.test\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: one.test:80:80\r\n\r\n", 400),
    // First lines.
    ("nonsense\r\n\r\n", 400), ("GET  / HTTP/1.1\r\nHost: one.test\r\n\r\n", 400),
    ("GET / FTP/1.1\r\nHost: one.test\r\n\r\n", 400),
    ("GET one.test HTTP/1.1\r\nHost: one.test\r\n\r\n", 400), ("G(T / HTTP/1.1\r\nHost: one.test\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: one.test\r\n\r\n", 505), ("CONNECT / HTTP/1.1\r\nHost: one.test\r\n\r\n", 501),
    ("TRACE / HTTP/1.1\r\nHost: one.test\r\n\r\n", 501),
    // Too much.
    ("GET /\(String(repeating: "a", count: 17_000)) HTTP/1.1\r\nHost: one.test\r\n\r\n", 431),
    ("GET / HTTP/1.1\r\nHost: one.test\r\n\(String(repeating: "a:\r\n", count: 100))\r\n", 431),
  ])
  func `A request with two meanings, or without one, is refused and reaches no origin`(request: String, status: Int)
    async throws
  {
    try await within("the connection ends") {
      let origin = try TestOrigin.saying("hello")
      let proxy = try await RunningProxy([origin])
      let answer = try await proxy.client.answer(to: request + "GET /hidden HTTP/1.1\r\nHost: one.test\r\n\r\n")
      #expect(answer.hasPrefix("HTTP/1.1 \(status) ") && answer.contains("\r\nConnection: close\r\n"), "\(answer)")
      #expect(answer.split(separator: "HTTP/1.1 ").count == 1 && origin.heads.isEmpty)
      _ = try await proxy.stop()
    }
  }

  @Test(arguments: [
    "x\r\n", "\r\n", "-1\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n", "5\r\nhello!\r\n", "5\r\nhello\n0\r\n\r\n",
    "5;a\nb\r\nhello\r\n",
    "5 5\r\nhello\r\n", "10000000000000005\r\nhello\r\n", "0\r\n\(String(repeating: "a: b\r\n", count: 101))\r\n",
    // A line of more than 1 KiB in front of a chunk, a field of more than 8 KiB, and several fields of more than 8 KiB together.
    "5;\(String(repeating: "a", count: 1100))\r\nhello\r\n0\r\n\r\n",
    "0\r\na: \(String(repeating: "b", count: 8200))\r\n\r\n",
    "0\r\n\(String(repeating: "a: \(String(repeating: "b", count: 200))\r\n", count: 50))\r\n",
  ])
  func `A body with invalid chunks is refused, and the origin does not get a whole request`(chunks: String) async throws
  {
    try await within("the connections end") {
      let cutOff = Gate()
      let origin = try TestOrigin { connection, _ in
        do {
          try await connection.move(.chunked, to: connection, isChunked: true)
        } catch {
          cutOff.open()
        }
        return false
      }
      let proxy = try await RunningProxy([origin])
      let answer = try await proxy.client.answer(
        to:
          "POST / HTTP/1.1\r\nHost: one.test\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)GET /hidden HTTP/1.1\r\n\r\n"
      )
      #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.contains("\r\nConnection: close\r\n"), "\(answer)")
      await cutOff.wait()
      #expect(origin.heads.count == 1)
      _ = try await proxy.stop()
    }
  }

  @Test func `A head that takes too long is refused, and connections without a request end`() async throws {
    try await within("the connections end") {
      let proxy = try await RunningProxy([TestOrigin.saying("hello")]) {
        $0.head = .milliseconds(500 * patience)
        $0.idle = .milliseconds(200)
      }
      #expect(try await proxy.client.answer(to: "GET / HTT").hasPrefix("HTTP/1.1 408 "))
      #expect(try await proxy.client.answer(to: "") == "")
      #expect(try await proxy.client.answer(to: "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n").hasSuffix("\r\n\r\nhello"))
      // A client that ends in the middle of a head gets no answer.
      let half = try await proxy.client.connect()
      try await half.write(utf8: "GET / HTTP/1.1\r\n")
      try await half.finishWriting()
      #expect(try await half.read() == nil)
      await half.close()
      _ = try await proxy.stop()
    }
  }

  @Test func `A body that stops is refused, and one that is cut off does not reach the origin as a whole`() async throws
  {
    try await within("the connections end") {
      let (ends, continuation) = AsyncStream.makeStream(of: Bool.self)
      let origin = try TestOrigin { connection, _ in
        let body = try? await connection.read(exactly: 10)
        continuation.yield(body != nil)
        return false
      }
      let proxy = try await RunningProxy([origin]) { $0.answer = .milliseconds(300 * patience) }
      let request = "POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 10\r\n\r\nhello"
      var isWhole = ends.makeAsyncIterator()
      let slow = try await proxy.client.answer(to: request)
      #expect(slow.hasPrefix("HTTP/1.1 408 ") && slow.contains("\r\nConnection: close\r\n"), "\(slow)")
      #expect(await isWhole.next() == false)
      let cut = try await proxy.client.connect()
      try await cut.write(utf8: request)
      try await cut.finishWriting()
      await #expect(throws: (any Error).self) { try await cut.read() }
      #expect(await isWhole.next() == false)
      await cut.close()
      _ = try await proxy.stop()
    }
  }

  @Test func `A client that does not read is aborted, and so is the origin's connection`() async throws {
    try await within("the origin's connection ends") {
      let cutOff = Gate()
      let origin = try TestOrigin { connection, _ in
        // More than fits into the buffers of all kernels.
        let size = 256 << 20
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n")
        do {
          for _ in 0..<size >> 20 { try await connection.write([UInt8](repeating: 7, count: 1 << 20)) }
        } catch {
          cutOff.open()
        }
        return false
      }
      let proxy = try await RunningProxy([origin]) { $0.stalled = .milliseconds(500 * patience) }
      let client = try await proxy.client.connect()
      try await client.write(utf8: "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n")
      await cutOff.wait()
      await #expect(throws: (any Error).self) { try await client.discard(exactly: 256 << 20) }
      await client.close()
      _ = try await proxy.stop()
    }
  }

  @Test func `An answer to a part of a body reaches the client, and ends the connection`() async throws {
    try await within("the answer is there") {
      let origin = try TestOrigin { connection, _ in
        _ = try await connection.read(exactly: 5)
        try await connection.write(utf8: "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop")
        return false
      }
      let proxy = try await RunningProxy([origin])
      let answer = try await proxy.client.answer(
        to: "POST / HTTP/1.1\r\nHost: one.test\r\nContent-Length: 1000000000\r\n\r\nhello")
      #expect(
        answer.hasPrefix("HTTP/1.1 413 Content Too Large\r\n") && answer.hasSuffix("\r\nConnection: close\r\n\r\nstop"))
      _ = try await proxy.stop()
    }
  }

  @Test(.needs(.curl)) func `Only WebSocket is passed on as an upgrade`() async throws {
    try await within("curl has its answers") {
      let proxy = try await RunningProxy([TestOrigin.echo()])
      for upgrade in ["h2c", "websocket, h2c", "TLS/1.0"] {
        let head = try await proxy.client.curl(
          "-H", "Connection: Upgrade", "-H", "Upgrade: \(upgrade)", proxy.client.url())
        #expect(!head.contains("pgrade"), "\(head)")
      }
      let head = try await proxy.client.curl(
        "-H", "Connection: upgrade", "-H", "Upgrade: WebSocket", proxy.client.url())
      #expect(head.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), "\(head)")
      _ = try await proxy.stop()
    }
  }
}
