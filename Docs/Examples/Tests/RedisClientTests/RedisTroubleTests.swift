import ActorSockets
import ExampleSupport
import Testing

@testable import RedisClient

/// What the client does when the server, the connection or a caller does not do its part.
@Suite struct RedisTroubleTests {
  @Test(.needs(.redisServer))
  func `A cancelled task stops waiting, and later commands get their own replies`() async throws {
    try await within("the replies are right") {
      let server = try await RedisServer()
      let redis = server.client()
      #expect(try await redis.get("name") == nil)
      let waiting = Task { try await redis.send(RedisCommand("BLPOP", "queue", "0")) }
      try await server.waitForBlockedClient()
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      // The command of the cancelled task is still the first in the connection's queue: its reply must not go to this one.
      async let echo = redis.send(RedisCommand("ECHO", "mine"))
      _ = try await server.cli("RPUSH", "queue", "of the cancelled task")
      #expect(try await echo == .bulk(Array("mine".utf8)))
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A transaction that is cancelled before it was sent is taken back as a whole`() async throws {
    try await within("the next commands have their replies") {
      // A server that accepts nothing yet: what is sent to it waits.
      let server = try await RedisServer()
      let redis = server.client()
      await server.stop()
      let waiting = Task {
        try await redis.transaction([RedisCommand("SET", "name", "Ada"), RedisCommand("RPUSH", "queue", "1")])
      }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      try await server.restart()
      #expect(try await redis.send(RedisCommand("DBSIZE")) == .integer(0))
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `Commands of many tasks are pipelined, and errors of the server are values of their own commands`() async throws
  {
    try await within("all replies are right") {
      let server = try await RedisServer()
      let redis = server.client()
      try await withThrowingTaskGroup { group in
        for number in 0..<200 {
          group.addTask {
            let replies = try await redis.send([
              RedisCommand("SET", "key\(number)", "\(number)"), RedisCommand("LPOP", "key\(number)"),
              RedisCommand("GET", "key\(number)"),
            ])
            #expect(replies[0] == .simple("OK"))
            guard case .error = replies[1] else { throw RedisError.unexpected(replies[1]) }
            #expect(replies[2] == .bulk(Array("\(number)".utf8)))
          }
        }
        try await group.waitForAll()
      }
      #expect(try await server.cli("INFO", "stats").contains("total_connections_received:2\r"))
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A reply that is late ends the connection, and the next command has a new one`() async throws {
    try await within("the next command works") {
      let server = try await RedisServer()
      let redis = server.client { $0.timeout = .milliseconds(500 * patience) }
      let late = await #expect(throws: SocketError.self) { try await redis.send(RedisCommand("BLPOP", "queue", "0")) }
      #expect(late?.code == .timedOut)
      _ = try await server.cli("RPUSH", "queue", "late")
      #expect(try await redis.send(RedisCommand("ECHO", "mine")) == .bulk(Array("mine".utf8)))
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `A lost connection repeats what only reads, and throws for the rest`() async throws {
    try await within("the commands have an outcome") {
      let server = try await RedisServer()
      let redis = server.client()
      try await redis.set("name", to: "Ada")
      let blocked = Task { try await redis.send(RedisCommand("BLPOP", "queue", "0")) }
      try await server.waitForBlockedClient()
      // Behind the blocked command, on the same connection.
      async let name = redis.get("name")
      try await server.waitForPipelinedInput()
      _ = try await server.cli("CLIENT", "KILL", "TYPE", "normal")
      let lost = await #expect(throws: SocketError.self) { try await blocked.value }
      #expect(lost?.endsConnection == true)
      #expect(try await name == "Ada")
      await redis.close()
      await server.stop()
    }
  }

  @Test(.needs(.redisServer))
  func `Commands wait while the server is down`() async throws {
    try await within("the server is back") {
      let server = try await RedisServer()
      let redis = server.client()
      try await redis.set("name", to: "Ada")
      await server.stop()
      async let number = redis.increment("number")
      try await server.restart()
      // The first command may have been sent to the server that was stopped.
      let result = try? await number
      #expect(result == nil || result == 1)
      #expect(try await redis.get("name") == nil)
      await redis.close()
      await server.stop()
    }
  }

  @Test func `Where no server is, the error says how often the client tried`() async throws {
    try await within("the client gives up") {
      var configuration = RedisClient.Configuration()
      configuration.retry.maximumTries = 3
      configuration.retry.maximumDelay = .zero
      let folder = try Folder()
      let redis = RedisClient(.unix(path: folder.file("nothing")), configuration: configuration)
      let error = await #expect(throws: SocketError.self) { try await redis.increment("number") }
      #expect(error?.description.contains("tried 3 times") == true)
    }
  }

  @Test(.needs(.redisServer))
  func `Messages arrive in order, and after a restart of the server`() async throws {
    try await within("the messages are there") {
      let server = try await RedisServer()
      let redis = server.client()
      var events = redis.messages(of: "news", "weather").makeAsyncIterator()
      for _ in 1...2 {
        #expect(try await events.next() == .subscribed(channel: "news"))
        #expect(try await events.next() == .subscribed(channel: "weather"))
        for number in 0..<100 {
          let channel = number.isMultiple(of: 2) ? "news" : "weather"
          #expect(try await redis.publish("number \(number)", to: channel) == 1)
        }
        for number in 0..<100 {
          let channel = number.isMultiple(of: 2) ? "news" : "weather"
          #expect(try await events.next() == .message(channel: channel, Array("number \(number)".utf8)))
        }
        try await server.restart()
        _ = try await redis.get("nothing")
      }
      await redis.close()
      await server.stop()
    }
  }
}

extension RedisServer {
  /// Waits until a client waits in a blocking command.
  fileprivate nonisolated func waitForBlockedClient() async throws {
    while try await !cli("INFO", "clients").contains("blocked_clients:1") { try Task.checkCancellation() }
  }

  /// Waits until a blocked client has sent more, which the server has not read: it does not read from clients that are blocked.
  fileprivate nonisolated func waitForPipelinedInput() async throws {
    while try await !cli("CLIENT", "LIST").contains(/flags=b\S* .*qbuf=[1-9]/) { try Task.checkCancellation() }
  }
}
