import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import ReverseProxy

/// Answers that come before the request's body was read: the connection stays open if not much of the body is left.
@Suite struct EarlyAnswerTests {
  /// An origin that answers without reading the body.
  private static func hasty(endsConnection: Bool) throws -> TestOrigin {
    try TestOrigin { connection, _ in
      try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
      if endsConnection { return false }
      while try await connection.read() != nil {}
      return false
    }
  }

  private static func head(of connection: TLSConnection) async throws -> String {
    String(decoding: try await connection.read(until: "\r\n\r\n", maximumLength: 16_384), as: UTF8.self)
  }

  private static func hello(_ connection: TLSConnection) async throws -> String {
    let head = try await head(of: connection)
    #expect(String(decoding: try await connection.read(exactly: 5), as: UTF8.self) == "hello")
    return head
  }

  private static let request = "POST / HTTP/1.1\r\nHost: one.test\r\n"

  @Test(arguments: ["Content-Length: 8\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"], [false, true])
  func `An answer that comes before the body keeps the connection, and the rest of the body is dropped`(
    fields: String, endsConnection: Bool
  ) async throws {
    try await within("the answers are there") {
      let origin = try Self.hasty(endsConnection: endsConnection)
      let proxy = try await RunningProxy([origin])
      let client = try await proxy.client.connect()
      for _ in 0..<5 {
        try await client.write(utf8: Self.request + fields)
        // The answer is there before the rest of the body.
        #expect(try await !Self.hello(client).contains("\r\nConnection: "))
        try await client.write(utf8: fields.contains("chunked") ? "5\r\n, abc\r\n0\r\n\r\n" : "abcdefgh")
      }
      await client.close()
      #expect(origin.heads.count == 5)
      #expect(try await proxy.stop().accepted == 1)
    }
  }

  @Test func `An origin that answers and reads the body in any order does not cost the client its connection`()
    async throws
  {
    try await within("the answers are there") {
      let origin = try TestOrigin { connection, _ in
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        _ = try await connection.read(exactly: 5)
        return true
      }
      let proxy = try await RunningProxy([origin])
      let client = try await proxy.client.connect()
      for _ in 0..<100 {
        try await client.write(utf8: Self.request + "Content-Length: 5\r\n\r\nabcde")
        #expect(try await !Self.hello(client).contains("\r\nConnection: "))
      }
      await client.close()
      #expect(try await proxy.stop().accepted == 1)
    }
  }

  @Test(arguments: [(100, false), (101, true)])
  func `The connection ends when more of the body is left than the limit`(length: Int, ends: Bool) async throws {
    try await within("the answer is there") {
      let proxy = try await RunningProxy([Self.hasty(endsConnection: false)]) { $0.dropped = 100 }
      let client = try await proxy.client.connect()
      try await client.write(utf8: Self.request + "Content-Length: \(length)\r\n\r\n")
      #expect(try await Self.hello(client).contains("\r\nConnection: close\r\n") == ends)
      if ends {
        #expect(try await client.read() == nil)
      } else {
        try await client.write(utf8: String(repeating: "a", count: length) + Self.request + "Content-Length: 0\r\n\r\n")
        _ = try await Self.hello(client)
      }
      await client.close()
      _ = try await proxy.stop()
    }
  }

  @Test(arguments: ["65\r\n\(String(repeating: "a", count: 101))\r\n", "x\r\n", ""])
  func `The connection ends when the rest of the body is too long, not valid, or does not come`(rest: String)
    async throws
  {
    try await within("the connection ends") {
      let proxy = try await RunningProxy([Self.hasty(endsConnection: false)]) {
        $0.dropped = 100
        if rest.isEmpty { $0.dropping = .milliseconds(100) }
      }
      let client = try await proxy.client.connect()
      try await client.write(utf8: Self.request + "Transfer-Encoding: chunked\r\n\r\n")
      #expect(try await !Self.hello(client).contains("\r\nConnection: "))
      try await client.write(utf8: rest)
      #expect(try await client.read() == nil)
      await client.close()
      _ = try await proxy.stop()
    }
  }

  @Test func `A client that waits for the permission to send its body is told that the connection ends`() async throws {
    try await within("the answer is there") {
      let proxy = try await RunningProxy([Self.hasty(endsConnection: false)])
      let client = try await proxy.client.connect()
      try await client.write(utf8: Self.request + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
      #expect(try await Self.hello(client).contains("\r\nConnection: close\r\n"))
      #expect(try await client.read() == nil)
      await client.close()
      _ = try await proxy.stop()
    }
  }

  @Test func `A refusal without a look at the body keeps the connection, too`() async throws {
    try await within("the answers are there") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let dead = listener.localAddresses[0]
      await listener.close()
      let proxy = try await RunningProxy([dead])
      let client = try await proxy.client.connect()
      for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"] {
        try await client.write(utf8: Self.request + body)
        let head = try await Self.head(of: client)
        #expect(head.hasPrefix("HTTP/1.1 502 ") && head.contains("\r\nConnection: keep-alive\r\n"))
        _ = try await client.read(exactly: "502 Bad Gateway\n".utf8.count)
      }
      await client.close()
      #expect(try await proxy.stop().accepted == 1)
    }
  }
}
