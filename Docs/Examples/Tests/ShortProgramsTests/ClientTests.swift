import ActorSockets
import ByteText
import ExampleSupport
import Synchronization
import Testing

@testable import ShortPrograms

@Suite(.serialized) struct BannerGrabberTests {
  @Test func `Servers are asked at the same time, and each failure has its reason`() async throws {
    try await within("all servers have been asked") {
      let script: @Sendable (TCPConnection) async throws -> Void = { connection in
        switch connection.localAddress?.ipAddress {
        case IPAddress("127.22.0.1"): try await connection.write(utf8: "hello\r\nSSH-2.0-Good_1\u{1B}[2J\r\n")
        case IPAddress("127.22.0.2"): try await stall(connection)
        case IPAddress("127.22.0.3"): try await connection.write(utf8: "SSH-2.0-cut")
        case IPAddress("127.22.0.4"): try await connection.write(Array(repeating: 97, count: 1 << 20))
        default: for _ in 0..<100 { try await connection.write(utf8: "not SSH\n") }
        }
      }
      let listener = try TCPListener.bind(to: .host("0.0.0.0", port: 0))
      let port = try #require(listener.port)
      let hosts = (1...5).map { Endpoint.host("127.22.0.\($0)", port: port) } + [.host("127.22.0.9", port: 1)]
      let found = try await withServer(listener, script) { _ in
        var grabber = BannerGrabber()
        grabber.timeLimit = .seconds(1)
        grabber.atATime = 4
        var found: [Endpoint: Result<String, any Error>] = [:]
        await grabber.run(hosts) { found[$0.host] = $0.banner }
        return found
      }
      #expect(found.count == 6)
      #expect(try found[hosts[0]]?.get() == "SSH-2.0-Good_1[2J")
      let codes = hosts.map { host -> SocketError.Code? in
        if case .failure(let error as SocketError) = found[host] { error.code } else { nil }
      }
      #expect(codes == [nil, .timedOut, .endOfStream, .limitExceeded, nil, .connectionRefused])
      #expect(throws: BannerGrabber.NotSSH.self) { try found[hosts[4]]?.get() }
    }
  }
}

@Suite struct HTTPClientTests {
  /// Answers by the path.
  private static let script: @Sendable (TCPConnection) async throws -> Void = { connection in
    while let head = try await connection.read(.message(until: "\r\n\r\n")) {
      switch ByteText(head).parts(at: " ")[1].description {
      case "/chunks":
        try await connection.write(
          utf8: "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\n")
        try await connection.write(utf8: "de\r\n0\r\nX-Trailer: 1\r\n\r\n")
      case "/end":
        return try await connection.write(utf8: "HTTP/1.0 200 OK\r\n\r\nuntil the end")
      case "/close":
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        try await stall(connection)
      case "/cut": return try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
      case "/huge": try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
      case "/flood": while true { try await connection.write(Array(repeating: 97, count: 1 << 16)) }
      case "/stall": try await stall(connection)
      case "/negative": try await connection.write(utf8: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
      case "/once":
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nonce")
        _ = try await connection.read(.message(until: "\r\n\r\n"))
        return await connection.abort()
      default: try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: 1\r\n\r\nhello")
      }
    }
  }

  @Test func `Bodies of all kinds are read, and connections are used again`() async throws {
    let accepted = Mutex(0)
    try await within("all pages are there") {
      try await withServer(
        nil,
        { connection in
          accepted.withLock { $0 += 1 }
          try await Self.script(connection)
        }
      ) { server async throws in
        let client = HTTPClient(server)
        for _ in 1...3 { #expect(try await client.get("/").body == Array("hello".utf8)) }
        #expect(try await client.get("/")["x"] == ByteText("1"))
        #expect(try await client.get("/chunks").body == Array("abcde".utf8))
        #expect(accepted.withLock { $0 } == 1)
        #expect(try await client.get("/end").body == Array("until the end".utf8))
        #expect(try await client.get("/close").body == Array("ok".utf8))
        #expect(try await client.get("/").status == 200)
        #expect(accepted.withLock { $0 } == 3)
        await client.close()
      }
    }
  }

  @Test func `A request is repeated if the server ends an idle connection at that moment`() async throws {
    try await within("the second answer is there") {
      try await withServer(nil, Self.script) { server async throws in
        let client = HTTPClient(server)
        #expect(try await client.get("/once").status == 200)
        #expect(try await client.get("/").body == Array("hello".utf8))
        #expect(try await client.get("/once").status == 200)
        await #expect(throws: SocketError.self) { try await client.send("POST", "/", body: [1]) }
        await client.close()
      }
    }
  }

  private func hasty(_ client: HTTPClient) -> HTTPClient {
    var client = client
    client.timeLimit = .seconds(1)
    return client
  }

  @Test(arguments: [
    ("/cut", SocketError.Code.endOfStream), ("/stall", .timedOut), ("/flood", .limitExceeded),
  ])
  func `A bad server costs one request`(path: String, code: SocketError.Code) async throws {
    try await within("the requests have ended") {
      try await withServer(nil, Self.script) { server async throws in
        let client = hasty(HTTPClient(server))
        let found = await failure { _ = try await client.get(path) }
        #expect(found == code)
        #expect(try await client.get("/").status == 200)
        await client.close()
      }
    }
  }

  @Test func `Lengths that cannot be and requests that would be two are refused`() async throws {
    try await within("the requests have ended") {
      try await withServer(nil, Self.script) { server async throws in
        let client = HTTPClient(server)
        await #expect(throws: HTTPClient.Failure.tooLarge) { try await client.get("/huge") }
        await #expect(throws: HTTPClient.Failure.badResponse) { try await client.get("/negative") }
        await #expect(throws: HTTPClient.Failure.badRequest) { try await client.get("/ HTTP/1.1\r\nHost: x\r\n\r\n") }
        await client.close()
      }
    }
  }
}

@Suite struct NTPClientTests {
  /// Answers with a clock that is ahead of this one.
  private func serve(_ endpoint: UDPEndpoint, ahead offset: Duration, spoofs: Bool = false) async throws {
    for try await question in endpoint.datagrams {
      let now = Self.bytes(UnixTime.now.advanced(by: offset))
      let head: [UInt8] = [0x24, 2] + Array(repeating: 0, count: 22)
      if spoofs {
        try await endpoint.send(question.reply(head + Array(repeating: 7, count: 8) + now + now))
        try await endpoint.send(question.reply([1, 2, 3]))
        continue
      }
      try await endpoint.send(question.reply(head + question.bytes[40..<48] + now + now))
    }
  }

  private static func bytes(_ time: UnixTime) -> [UInt8] {
    let (seconds, fraction) = time.durationSince1970.components
    let value = UInt64(seconds + 2_208_988_800) << 32 | UInt64(fraction / 1_000_000_000) * (1 << 32) / 1_000_000_000
    return (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * $0)) }
  }

  @Test func `The offset is in the middle of those of the servers that answer`() async throws {
    try await within("the servers have answered") {
      try await withThrowingTaskGroup { group in
        var servers: [Endpoint] = []
        for (offset, spoofs) in [(10, false), (3_600, false), (12, false), (0, true)] {
          let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
          servers.append(.address(endpoint.localAddresses[0]))
          group.addTask { try await serve(endpoint, ahead: .seconds(offset), spoofs: spoofs) }
        }
        let silent = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
        var client = NTPClient()
        client.patience = .milliseconds(100)
        let (offset, samples) = try await client.run(
          servers + [
            .address(silent.localAddresses[0]), .host("127.0.0.1", port: 1), .host("nowhere.invalid", port: 1),
          ])
        #expect(samples.count == 3)
        #expect((11.9...12.1).contains(offset / .seconds(1)), "\(offset)")
        group.cancelAll()
      }
    }
  }

  @Test func `A lost question is asked again`() async throws {
    try await within("the third question has an answer") {
      let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      async let sample = { () async throws -> Duration in
        var client = NTPClient()
        client.patience = .milliseconds(50)
        return try await client.run([.address(endpoint.localAddresses[0])]).offset
      }()
      for _ in 1...2 { _ = try await endpoint.receive(timeout: .seconds(30)) }
      async let serving: Void = serve(endpoint, ahead: .zero)
      #expect(abs(try await sample / .seconds(1)) < 5)
      await endpoint.close()
      try await serving
    }
  }

  @Test func `Without an answer there is an error`() async throws {
    await #expect(throws: NTPClient.NoAnswer.self) { try await NTPClient().run([.host("127.0.0.1", port: 1)]) }
  }
}

@Suite struct MemcachedClientTests {
  /// A memcached for a few commands. A key is served in another way if its name says so.
  private static func serve(_ connection: TCPConnection, _ values: Values) async throws {
    for try await line in connection.messages(until: .crlf) {
      let words = ByteText(line.dropLast(2)).parts(at: " ")
      switch words[1].description {
      case "stall": return try await stall(connection)
      case "cut": return try await connection.write(utf8: "VALUE cut 0 100\r\nhalf")
      case "broken": try await connection.write(utf8: "SERVER_ERROR out of memory\r\n")
      case "flood": try await connection.write(Array(repeating: 97, count: 1 << 20))
      default:
        switch words[0].description {
        case "get":
          let value = values.all.withLock { $0[words[1]] }
          let head = value.map { Array("VALUE \(words[1]) 0 \($0.count)\r\n".utf8) + $0 + [13, 10] }
          try await connection.write((head ?? []) + "END\r\n".utf8)
        case "set":
          let value = try await connection.read(exactly: words[4].number ?? 0)
          _ = try await connection.read(exactly: 2)
          values.all.withLock { $0[words[1]] = value }
          try await connection.write(utf8: "STORED\r\n")
        default:
          let old = values.all.withLock { $0.removeValue(forKey: words[1]) }
          try await connection.write(utf8: old == nil ? "NOT_FOUND\r\n" : "DELETED\r\n")
        }
      }
    }
  }

  private final class Values: Sendable {
    let all = Mutex<[ByteText: [UInt8]]>([:])
    let connections = Mutex(0)
  }

  private func withMemcached(_ body: (MemcachedClient, Values) async throws -> Void) async throws {
    let values = Values()
    try await withServer(
      nil,
      { connection in
        values.connections.withLock { $0 += 1 }
        try await Self.serve(connection, values)
      }
    ) { server async throws in
      let client = MemcachedClient(server, timeLimit: .seconds(2))
      try await body(client, values)
      await client.close()
    }
  }

  @Test func `Many tasks share one connection, and each gets its own value`() async throws {
    try await within("all values are there") {
      try await withMemcached { client, values async throws in
        try await withThrowingTaskGroup { group in
          for number in 0..<200 {
            group.addTask {
              let value = Array(repeating: UInt8(truncatingIfNeeded: number), count: number * 100)
              try await client.set("key\(number)", to: value)
              #expect(try await client.get("key\(number)") == value)
              #expect(try await client.delete("key\(number)"))
              #expect(try await client.delete("key\(number)") == false)
            }
          }
          try await group.waitForAll()
        }
        #expect(try await client.get("key1") == nil)
        #expect(values.connections.withLock { $0 } == 1)
      }
    }
  }

  @Test(arguments: ["stall", "cut", "flood"])
  func `After a failure the next command has a new connection`(key: String) async throws {
    try await within("the client has connected again") {
      try await withMemcached { client, values async throws in
        try await client.set("a", to: [1])
        await #expect(throws: (any Error).self) { try await client.get(key) }
        #expect(try await client.get("a") == [1])
        #expect(values.connections.withLock { $0 } == 2)
      }
    }
  }

  @Test func `Errors of the server are errors, and a key cannot be another command`() async throws {
    try await within("the commands have ended") {
      try await withMemcached { client, _ async throws in
        let failure = MemcachedClient.Failure.server("SERVER_ERROR out of memory")
        await #expect(throws: failure) { try await client.get("broken") }
        await #expect(throws: MemcachedClient.Failure.badKey) { try await client.get("a\r\nflush_all") }
        await #expect(throws: MemcachedClient.Failure.badKey) { try await client.delete("") }
        await #expect(throws: MemcachedClient.Failure.tooLarge) {
          try await client.set("a", to: Array(repeating: 0, count: 2 << 20))
        }
      }
    }
  }
}
