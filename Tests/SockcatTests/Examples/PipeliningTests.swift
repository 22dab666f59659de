import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The examples of the article about order.
@Suite struct PipeliningTests {
  @Test func `The questions are sent before the first answer has arrived`() async throws {
    try await within("the answers arrive") {
      let (client, server) = InMemoryConnection.pair()
      async let received = answers(to: ["1\n", "2\n", "3\n"], on: client)
      #expect(try await server.read(exactly: 6) == Array("1\n2\n3\n".utf8))
      try await server.write(utf8: "one\ntwo\nthree\n")
      #expect(try await received == ["one\n", "two\n", "three\n"].map { Array($0.utf8) })
    }
  }

  @Test func `A question that does not fit into the budget is an error, and no answer is awaited`() async throws {
    try await within("the error is thrown") {
      var configuration = InMemoryConnection.Configuration()
      (configuration.capacity, configuration.writeBudget) = (10, 100)
      let (client, server) = InMemoryConnection.pair(configuration: configuration)
      let asking = Task.immediate {
        try await answers(to: [String](repeating: "twenty characters..\n", count: 10), on: client)
      }
      // A question that is refused reads no answer.
      #expect((1..<10).contains(await client.status.queuedReads))
      let echo = Task { for try await line in server.lines { try await server.write(utf8: "\(line)\n") } }
      let error = await #expect(throws: SocketError.self) { try await asking.value }
      #expect(error?.code == .limitExceeded)
      await client.close()
      try await echo.value
    }
  }

  @Test func `Tasks that ask at the same time each get their own answer, also if some are cancelled`() async throws {
    try await within("the answers arrive") {
      let (client, server) = InMemoryConnection.pair()
      // A counter of each key, as memcached keeps it.
      let memcached = Task {
        var counts: [Substring: Int] = [:]
        for try await line in server.lines(ending: .crlf) {
          let key = line.split(separator: " ")[1]
          counts[key, default: 0] += 1
          try await server.write(utf8: "\(counts[key] ?? 0)\r\n")
        }
        return counts
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<200 {
          group.addTask {
            let asking = Task { try await countVisit(of: "page\(number)", on: client) }
            if number.isMultiple(of: 7) { asking.cancel() }
            do {
              let count = try await asking.value
              #expect(count == 1)
            } catch is CancellationError {
              #expect(number.isMultiple(of: 7))
            }
          }
        }
        try await group.waitForAll()
      }
      await client.close()
      #expect(try await memcached.value.count >= 171)
    }
  }

  @Test func `An answer may be of any form`() async throws {
    try await within("the answer arrives") {
      let (client, server) = InMemoryConnection.pair()
      async let answer = value(of: "a", on: client)
      #expect(try await server.read(exactly: 20) == Array("*2\r\n$3\r\nGET\r\n$1\r\na\r\n".utf8))
      try await server.write(utf8: "$5\r\nhello\r\n")
      #expect(try await answer == .bulk(Array("hello".utf8)))
    }
  }
}
