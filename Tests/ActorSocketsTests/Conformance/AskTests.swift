import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct AskTests {
  /// Answers each line with the same line in brackets.
  private func serve(_ stream: any ByteStream) -> Task<[String], any Error> {
    Task {
      var asked: [String] = []
      for try await line in stream.lines {
        asked.append(line)
        try await stream.write(utf8: "<\(line)>\n")
      }
      await stream.close()
      return asked
    }
  }

  @Test(arguments: Transport.allCases)
  func `Each of many callers gets its own answer`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = serve(pair.server)
    let client = pair.client
    try await withThrowingTaskGroup { group in
      for number in 0..<200 {
        group.addTask {
          let answer = try await client.ask(utf8: "\(number)\n", for: .line())
          #expect(answer == "<\(number)>")
        }
      }
      try await group.waitForAll()
    }
    await client.close()
    #expect(try await server.value.count == 200)
  }

  @Test(arguments: Transport.allCases)
  func `Whatever can be written can be a question`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = serve(pair.server)
    let client = pair.client
    let bytes = Array("_12\n".utf8)
    // The prefix of a message is the letter A.
    let prefixed = [UInt8](repeating: 66, count: 64) + [10]
    #expect(try await client.ask(bytes.span.extracting(1..<4), for: .line()) == "<12>")
    #expect(try await client.ask(bytes[1...], for: .line()) == "<12>")
    #expect(try await client.ask("_3\n".dropFirst().utf8, for: .line()) == "<3>")
    #expect(try await client.ask(contentsOf: [[52], [], [53, 10]], for: .line()) == "<45>")
    let long = String(decoding: [65] + prefixed.dropLast(), as: UTF8.self)
    #expect(try await client.ask(message: prefixed, lengthPrefix: .uint8, for: .line()) == "<\(long)>")
    let answers = [
      client.enqueueAsk(bytes.span.extracting(1..<4), for: .line()), client.enqueueAsk(bytes[2...], for: .line()),
      client.enqueueAsk(contentsOf: [[54], [55, 10]], for: .line()),
      try client.enqueueAsk(message: prefixed, lengthPrefix: .uint8, for: .line()),
    ]
    for (answer, expected) in zip(answers, ["12", "2", "67", long]) {
      #expect(try await answer.value == "<\(expected)>")
    }
    await expectError(.invalidArgument) { _ = try await client.ask(contentsOf: [[], []], for: .line()) }
    await expectError(.invalidArgument) {
      _ = try await client.ask(message: [UInt8](repeating: 0, count: 256), lengthPrefix: .uint8, for: .line())
    }
    await client.close()
    #expect(try await server.value.count == 9)
  }

  @Test(arguments: Transport.allCases)
  func `Questions do not wait for answers, and go out in the order of their calls`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let answers = (0..<50).map { number in
      pair.client.enqueueAsk(Array("\(number)\n".utf8), for: .line(), timeout: .within(.seconds(60)))
    }
    // No question is answered before all were asked.
    var questions: [String] = []
    var lines = pair.server.lines.makeAsyncIterator()
    while questions.count < 50, let line = try await lines.next() { questions.append(line) }
    #expect(questions == (0..<50).map { "\($0)" })
    try await pair.server.write(utf8: questions.map { "<\($0)>\n" }.joined())
    for (number, answer) in answers.enumerated() { #expect(try await answer.value == "<\(number)>") }
    #expect(await pair.client.state == .open)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An answer that times out ends the stream, and the questions after it fail`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let client = pair.client
    let first = Task.immediate { try await client.ask(utf8: "1\n", for: .line(), timeout: .seconds(5)) }
    let second = client.enqueueAsk(Array("2\n".utf8), for: .line())
    #expect(try await pair.server.read(exactly: 4) == Array("1\n2\n".utf8))
    await time.advance(by: .seconds(5))
    let error = await expectError(.timedOut) { _ = try await first.value }
    #expect(error.isRetryable)
    await expectError(.precedingReadFailed) { _ = try await second.value }
    #expect(await client.state == .closed)
    #expect("\(try await client.closed.reason)" == "timedOut")
    await expectError(.precedingReadFailed) { _ = try await client.ask(utf8: "3\n", for: .line()) }
  }

  @Test(arguments: Transport.allCases)
  func `An answer that is not what was asked for ends the stream`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let first = Task.immediate { try await client.ask(utf8: "1\n", for: .line(maximumLength: 5)) }
    let second = client.enqueueAsk(Array("2\n".utf8), for: .line())
    #expect(try await pair.server.read(exactly: 4) == Array("1\n2\n".utf8))
    try await pair.server.write(utf8: "far too long\nanswer 2\n")
    await expectError(.limitExceeded) { _ = try await first.value }
    await expectError(.precedingReadFailed) { _ = try await second.value }
    #expect(await client.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `A cancelled question that was sent keeps the place of its answer`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let first = Task.immediate { try await client.ask(utf8: "1\n", for: .line()) }
    #expect(try await pair.server.read(exactly: 2) == Array("1\n".utf8))
    first.cancel()
    await #expect(throws: CancellationError.self) { _ = try await first.value }
    let second = Task.immediate { try await client.ask(utf8: "2\n", for: .line()) }
    try await pair.server.write(utf8: "answer 1\nanswer 2\n")
    #expect(try await second.value == "answer 2")
    #expect(await client.state == .open)
  }

  @Test(arguments: Transport.allCases)
  func `A cancelled question of which nothing was sent is taken back`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let client = pair.client
    let bulk = client.enqueueWrite(pattern(tooMuch))
    let first = Task.immediate { try await client.ask(utf8: "1\n", for: .line()) }
    let second = Task.immediate { try await client.ask(utf8: "2\n", for: .line()) }
    let third = Task.immediate { try await client.ask(utf8: "3\n", for: .line()) }
    try await client.hasQueued(reads: 3, writes: 4)
    second.cancel()
    await #expect(throws: CancellationError.self) { _ = try await second.value }
    #expect(await client.status.queuedReads == 2)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await bulk.value
    #expect(try await pair.server.read(exactly: 4) == Array("1\n3\n".utf8))
    try await pair.server.write(utf8: "answer 1\nanswer 3\n")
    #expect(try await first.value == "answer 1")
    #expect(try await third.value == "answer 3")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A question that could not be sent in time is taken back`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.isNarrow = true }
    let client = pair.client
    let bulk = client.enqueueWrite(pattern(tooMuch))
    let first = Task.immediate { try await client.ask(utf8: "1\n", for: .line(), timeout: .within(.seconds(5))) }
    let second = Task.immediate { try await client.ask(utf8: "2\n", for: .line()) }
    try await client.hasQueued(reads: 2, writes: 3)
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { _ = try await first.value }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await bulk.value
    #expect(try await pair.server.read(exactly: 2) == Array("2\n".utf8))
    try await pair.server.write(utf8: "answer 2\n")
    #expect(try await second.value == "answer 2")
  }

  @Test(arguments: Transport.allCases)
  func `In a cancelled task nothing is asked`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let task = Task {
      try await eventually("the task is cancelled") { Task.isCancelled }
      return try await client.ask(utf8: "1\n", for: .line())
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { _ = try await task.value }
    let server = serve(pair.server)
    #expect(try await client.ask(utf8: "2\n", for: .line()) == "<2>")
    await client.close()
    #expect(try await server.value == ["2"])
  }

  @Test(arguments: Transport.allCases)
  func `The end of the stream fails every question once`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let answers = (0..<10).map { client.enqueueAsk(Array("\($0)\n".utf8), for: .until(.lf)) }
    #expect(try await pair.server.read(exactly: 20).count == 20)
    try await pair.server.write(utf8: "one\ntw")
    await pair.server.close()
    #expect(try await answers[0].value == Array("one\n".utf8))
    await expectError(.endOfStream) { _ = try await answers[1].value }
    for answer in answers[2...] {
      await #expect { try await answer.value } throws: {
        [.precedingReadFailed, .endOfStream].contains(($0 as? SocketError)?.code)
      }
    }
    let late = Task.immediate { try await client.ask(utf8: "late\n", for: .line()) }
    await #expect(throws: (any Error).self) { _ = try await late.value }
  }

  @Test(arguments: Transport.allCases)
  func `A read that fails before the answer ends the stream, too`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let header = client.enqueueRead(.exactly(4))
    let answer = client.enqueueAsk(Array("1\n".utf8), for: .line())
    #expect(try await pair.server.read(exactly: 2) == Array("1\n".utf8))
    header.cancel()
    await expectError(.precedingReadFailed) { _ = try await answer.value }
    #expect(await client.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `A question that makes no sense is refused and sends nothing`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeBudget = 1_000 }
    let client = pair.client
    await expectError(.invalidArgument) { _ = try await client.ask([], for: .line()) }
    await expectError(.invalidArgument) { _ = try await client.ask([1], for: .peek(upTo: 1)) }
    await expectError(.invalidArgument) { _ = try await client.ask([1], for: .message(ofLength: -1)) }
    await expectError(.invalidArgument) { _ = try await client.enqueueAsk([], for: .line()).value }
    let server = serve(pair.server)
    #expect(try await client.ask(utf8: "\(String(repeating: "x", count: 5_000))\n", for: .line())?.count == 5_002)
    try await client.finishWriting()
    await expectError(.closed) { _ = try await client.ask(utf8: "late\n", for: .line()) }
    #expect(try await server.value.count == 1)
  }

  @Test(arguments: Transport.allCases)
  func `Enqueued questions count against the write budget`(transport: Transport) async throws {
    let pair = try await transport.pair {
      $0.isNarrow = true
      $0.writeBudget = 10_000
    }
    let client = pair.client
    _ = client.enqueueWrite(pattern(tooMuch))
    try await eventually("the first write waits") { await client.status.queuedWrites == 1 }
    await expectError(.limitExceeded) { _ = try await client.enqueueAsk(pattern(9_999), for: .line()).value }
    #expect(await client.status.queuedReads == 0)
  }

  @Test(arguments: Transport.allCases)
  func `A question whose time is over is not asked`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    for timeout in [Timeout.until(.now - .seconds(1)), .within(.zero), .zero] {
      await expectError(.timedOut) { _ = try await client.ask(utf8: "late\n", for: .line(), timeout: timeout) }
      let large = String(repeating: "x", count: 100_000) + "\n"
      await expectError(.timedOut) { _ = try await client.ask(utf8: large, for: .line(), timeout: timeout) }
    }
    let server = serve(pair.server)
    #expect(try await client.ask(utf8: "1\n", for: .line()) == "<1>")
    await client.close()
    #expect(try await server.value == ["1"])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An answer that times out ends a stream that finishes its reads`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let client = pair.client
    let answer = Task.immediate { try await client.ask(utf8: "1\n", for: .line(), timeout: .seconds(5)) }
    #expect(try await pair.server.read(exactly: 2) == Array("1\n".utf8))
    let other = Task.immediate { try await client.read(.line()) }
    try await client.hasQueued(reads: 2)
    let closing = Task.immediate { await client.close(after: .pendingReads) }
    try await eventually("the stream closes") { await client.state == .closing }
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { _ = try await answer.value }
    // It must not get the late answer.
    await expectError(.precedingReadFailed) { _ = try await other.value }
    await closing.value
  }

  @Test(arguments: Transport.allCases)
  func `The peer's end is reported as such, and not as a failed answer`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let first = client.enqueueAsk(Array("1\n".utf8), for: .until(.lf))
    let second = client.enqueueAsk(Array("2\n".utf8), for: .until(.lf))
    #expect(try await pair.server.read(exactly: 4).count == 4)
    try await pair.server.finishWriting()
    await expectError(.endOfStream) { _ = try await first.value }
    await #expect(throws: SocketError.self) { _ = try await second.value }
    #expect(await client.state == .open)
    await client.close()
    #expect(try await client.closed.reason == .remote)
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `A reset is what later calls throw`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let answer = client.enqueueAsk(Array("1\n".utf8), for: .until(.lf))
    #expect(try await pair.server.read(exactly: 2).count == 2)
    await pair.server.abort()
    let thrown = await #expect(throws: (any Error).self) { _ = try await answer.value }
    let later = await #expect(throws: (any Error).self) { _ = try await client.read() }
    #expect((thrown as? any NetworkError)?.isCausedByPeer == true)
    #expect((later as? any NetworkError)?.isCausedByPeer == true)
  }
}
