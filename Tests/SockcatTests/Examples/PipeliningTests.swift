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
      let asking = Task {
        try await answers(to: [String](repeating: "twenty characters..\n", count: 10), on: client)
      }
      try await eventually("all questions are queued or refused") { await client.status.queuedReads == 10 }
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
      let echo = Task { for try await line in server.lines { try await server.write(utf8: "\(line)!\n") } }
      let questioner = Questioner(client)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<200 {
          group.addTask {
            let asking = Task { try await questioner.ask("\(number)\n") }
            if number.isMultiple(of: 7) { asking.cancel() }
            let answer = try await asking.value
            #expect(answer == Array("\(number)!\n".utf8))
          }
        }
        try await group.waitForAll()
      }
      await client.close()
      try await echo.value
    }
  }

  @Test func `When the connection ends, every question that waits is an error`() async throws {
    try await within("the errors are thrown") {
      let (client, server) = InMemoryConnection.pair()
      let questioner = Questioner(client)
      let asking = (0..<3).map { number in Task { try await questioner.ask("\(number)\n") } }
      _ = try await server.read(exactly: 6)
      await server.close()
      for task in asking { await #expect(throws: SocketError.self) { try await task.value } }
    }
  }
}
