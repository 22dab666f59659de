import ActorSockets
import ExampleSupport
import Testing

@testable import RedisClient

@Suite struct RedisClientTests {
  @Test(.needs(.redisServer), .needs(.redisCLI), arguments: [false, true])
  func `Values that the client sets are in the server, and the other way round`(onPort: Bool) async throws {
    try await within("the values are there") {
      let server = try await RedisServer(onPort: onPort)
      let redis = server.client()
      try await redis.set("name", to: "Ada\r\nLovelace")
      #expect(try await server.cli("GET", "name") == "Ada\r\nLovelace\n")
      #expect(try await redis.get("name") == "Ada\r\nLovelace")
      _ = try await server.cli("SET", "city", "Zürich")
      #expect(try await redis.get(["city", "nothing", "name"]) == ["Zürich", nil, "Ada\r\nLovelace"])
      #expect(try await redis.get("nothing") == nil)
      #expect(try await redis.increment("visits") == 1)
      #expect(try await redis.increment("visits", by: 41) == 42)
      #expect(try await redis.append("a", "b", "", to: "list") == 3)
      #expect(try await redis.list("list") == ["a", "b", ""])
      #expect(try await redis.list("nothing") == [])
      #expect(try await redis.lifetime(of: "name") == nil)
      try await redis.set("name", to: "Grace", for: .seconds(100))
      let lifetime = try #require(await redis.lifetime(of: "name"))
      #expect(lifetime > .seconds(50) && lifetime <= .seconds(100))
      #expect(try await redis.remove("name", "city", "nothing") == 2)
      #expect(try await redis.get("name") == nil)
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A value of many megabytes comes back as it was`() async throws {
    try await within("the value is back") {
      let server = try await RedisServer()
      let redis = server.client()
      let value = (0..<20_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
      try await redis.set("large", to: value)
      #expect(try await redis.bytes(of: "large") == value)
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A thousand tasks share one connection, and each gets its own reply`() async throws {
    try await within("the replies are there") {
      let server = try await RedisServer()
      let redis = server.client()
      try await withThrowingTaskGroup { group in
        for number in 0..<1000 {
          group.addTask {
            #expect(try await redis.send(RedisCommand("ECHO", "\(number)")) == .bulk(Array("\(number)".utf8)))
            let replies = try await redis.send([RedisCommand("ECHO", "a\(number)"), RedisCommand("ECHO", "b\(number)")])
            #expect(replies.map(\.text) == ["a\(number)", "b\(number)"])
            try await redis.increment("count")
          }
        }
        try await group.waitForAll()
      }
      #expect(try await redis.get("count") == "1000")
      let info = try await redis.send(RedisCommand("INFO", "stats"))
      #expect(try #require(info.text).contains("total_connections_received:1\r"))
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `The server's errors are thrown, or are replies among others`() async throws {
    try await within("the errors are there") {
      let server = try await RedisServer()
      let redis = server.client()
      try await redis.append("a", to: "list")
      let wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
      await #expect(throws: RedisError.server(wrongType)) { try await redis.increment("list") }
      let replies = try await redis.send([RedisCommand("INCR", "list"), RedisCommand("INCR", "number")])
      #expect(replies == [.error(wrongType), .integer(1)])
      #expect(
        try await redis.transaction([RedisCommand("INCR", "number"), RedisCommand("GET", "number")]) == [
          .integer(2), .bulk(Array("2".utf8)),
        ])
      let refused = await #expect(throws: RedisError.self) {
        try await redis.transaction([RedisCommand("INCR", "number"), RedisCommand("NONSENSE")])
      }
      #expect(refused?.description.hasPrefix("EXECABORT") == true)
      #expect(try await redis.get("number") == "2")
      await redis.close()
      let closed = await #expect(throws: SocketError.self) { try await redis.get("number") }
      #expect(closed?.code == .closed)
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A password and a database are chosen on each connection`() async throws {
    try await within("the password counts") {
      let server = try await RedisServer(options: ["--requirepass", "secret"])
      let redis = server.client {
        $0.password = "secret"
        $0.database = 3
      }
      try await redis.set("name", to: "Ada")
      let info = try await redis.send(RedisCommand("INFO", "keyspace"))
      #expect(try #require(info.text).contains("db3:keys=1"))
      let wrong = await #expect(throws: RedisError.self) {
        try await server.client { $0.password = "guess" }.get("name")
      }
      #expect(wrong?.description.hasPrefix("WRONGPASS") == true)
      let anonymous = await #expect(throws: RedisError.self) { try await server.client().get("name") }
      #expect(anonymous?.description.hasPrefix("NOAUTH") == true)
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer), .needs(.redisCLI), .needs(.redisClient))
  func `The program sends a command, and prints the messages of a channel`() async throws {
    try await within("the program prints them") {
      let server = try await RedisServer()
      let place = "\(server.endpoint)"
      #expect(try await Program.run(.redisClient, [place, "SET", "name", "Ada"]) == "OK\n")
      #expect(try await Program.run(.redisClient, [place, "MGET", "name", "nothing"]) == "- Ada\n- (nil)\n")
      let refused = try Program(.redisClient, [place, "INCR", "name"])
      #expect(try await refused.exitStatus() == 1)
      #expect(await refused.errors.whole == "ERR value is not an integer or out of range\n")
      let subscriber = try Program(.redisClient, [place, "SUBSCRIBE", "news"])
      try await subscriber.waitForOutput("subscribed to news\n")
      #expect(try await server.cli("PUBLISH", "news", "hello") == "1\n")
      try await subscriber.waitForOutput("news: hello\n")
      await subscriber.stop()
      await server.stop()
    }
  }
}
