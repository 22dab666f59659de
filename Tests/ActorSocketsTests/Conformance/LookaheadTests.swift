import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

// Loops take elements that have arrived without a read for each. A program may see no difference except in speed.

@Suite(.conformance, .endsInTime) struct LookaheadConformanceTests {
  /// A stream on which the lines "0", "1", … have arrived, and a loop over them that has got the first.
  private struct Scene {
    let reactor: Reactor
    let pair: Pair
    var server: any ByteStream { pair.server }
    var loop: StreamSequence<String>.AsyncIterator

    init(_ transport: Transport, lines: Int = 4, _ change: (inout PairOptions) -> Void = { _ in }) async throws {
      reactor = Reactor()
      pair = try await transport.pair(on: reactor, change)
      let text = (0..<lines).map { "\($0)\n" }.joined()
      try await pair.client.write(utf8: text)
      // A read makes the stream receive them all.
      let server = pair.server
      let waiting = Task { try await server.read(exactly: text.utf8.count + 1) }
      try await server.hasBuffered(text.utf8.count)
      waiting.cancel()
      await expectCancellation { _ = try await waiting.value }
      await server.assumeLookahead(of: 64)
      loop = server.lines.makeAsyncIterator()
      #expect(try await loop.next() == "0")
    }

    /// The next elements, which the loop takes while the reactor's thread does nothing else.
    mutating func nextWhileBlocked(_ count: Int) async throws -> [String?] {
      try await reactor.whileBlocked {
        var taken: [String?] = []
        for _ in 0..<count { taken.append(try await loop.next()) }
        return taken
      }
    }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Elements that have arrived need no reactor`(transport: Transport) async throws {
    var scene = try await Scene(transport)
    let taken = try await scene.nextWhileBlocked(3)
    #expect(taken == ["1", "2", "3"])
    #expect(await scene.server.status.bufferedBytes == 0)
  }

  enum Write: CaseIterable, Sendable { case write, withTimeout, gathered, enqueued }

  @Test(.inRealTime, arguments: Transport.allCases, Write.allCases)
  func `A write between two elements leaves the others in place`(transport: Transport, write: Write) async throws {
    var scene = try await Scene(transport)
    switch write {
    case .write: try await scene.server.write([1])
    case .withTimeout: try await scene.server.write([1], timeout: .within(.seconds(60)))
    case .gathered: try await scene.server.write(contentsOf: [[1], [2]])
    case .enqueued: _ = scene.server.enqueueWrite([1])
    }
    // The enqueued write has begun when the reactor is blocked.
    let next = try await scene.nextWhileBlocked(1)
    #expect(next == ["1"])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read that was enqueued earlier comes first, also if the reactor has not heard of it`(
    transport: Transport
  ) async throws {
    let scene = try await Scene(transport)
    let release = Gate()
    scene.reactor.submit { while !release.isOpen {} }
    let pending = scene.server.enqueueRead(.line())
    let loop = scene.loop
    let later = Task.immediate {
      var loop = loop
      return try await [loop.next(), loop.next()]
    }
    release.open()
    #expect(try await later.value == ["2", "3"])
    #expect(try await pending.value == "1")
  }

  enum Other: CaseIterable, Sendable {
    case read, line, parse, withBytes, peek, takeBuffered, status, secondLoop, newLoop
  }

  @Test(.inRealTime, arguments: Transport.allCases, Other.allCases)
  func `Whatever else looks at the bytes finds those that were not taken`(
    transport: Transport, other: Other
  ) async throws {
    var scene = try await Scene(transport)
    let server = scene.server
    #expect(try await scene.loop.next() == "1")
    switch other {
    case .read: #expect(try await server.read() == Array("2\n3\n".utf8))
    case .line: #expect(try await server.read(.line()) == "2")
    case .parse: #expect(try await server.read(.parsing(LineParser())) == Array("2".utf8))
    case .withBytes:
      let count = try await server.withBytes { bytes, consumed in
        consumed = 2
        return bytes.count
      }
      #expect(count == 4)
    case .peek: #expect(try await server.peek() == Array("2\n3\n".utf8))
    case .takeBuffered: #expect(await server.takeBuffered() == Array("2\n3\n".utf8))
    case .status: #expect(await server.status.bufferedBytes == 4)
    case .secondLoop:
      var second = server.messages(until: "\n").makeAsyncIterator()
      #expect(try await second.next() == Array("2\n".utf8))
    case .newLoop:
      for try await line in server.lines {
        #expect(line == "2")
        break
      }
    }
    try await scene.pair.client.write(utf8: "4\n")
    let next = try await scene.loop.next()
    switch other {
    case .read, .takeBuffered: #expect(next == "4")
    case .peek, .status: #expect(next == "2")
    default: #expect(next == "3")
    }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A copy of the loop takes the next elements, and not the same`(transport: Transport) async throws {
    var scene = try await Scene(transport)
    var copy = scene.loop
    #expect(try await scene.loop.next() == "1")
    #expect(try await copy.next() == "2")
    #expect(try await scene.loop.next() == "3")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A cancelled task takes nothing`(transport: Transport) async throws {
    let scene = try await Scene(transport)
    let server = scene.server
    let hasLookedAhead = Gate()
    let mayGoOn = Gate()
    let cancelled = Task {
      await server.assumeLookahead(of: 64)
      var loop = server.lines.makeAsyncIterator()
      #expect(try await loop.next() == "1")
      hasLookedAhead.open()
      await mayGoOn.wait()
      _ = try await loop.next()
    }
    await hasLookedAhead.wait()
    cancelled.cancel()
    mayGoOn.open()
    await expectCancellation { try await cancelled.value }
    var again = scene.server.lines.makeAsyncIterator()
    #expect(try await again.next() == "2")
  }

  enum Ending: CaseIterable, Sendable {
    case close, closeAfterReads, closeAfterWrites, abort, shutDown
  }

  @Test(.inRealTime, arguments: Transport.allCases, Ending.allCases)
  func `A stream that was closed gives its loop no further element`(transport: Transport, ending: Ending) async throws {
    var scene = try await Scene(transport)
    let server = scene.server
    switch ending {
    case .close: Task.immediate { await server.close() }
    case .closeAfterReads: Task.immediate { await server.close(after: .pendingReads) }
    case .closeAfterWrites: Task.immediate { await server.close(after: .pendingWrites) }
    case .abort: await server.abort()
    case .shutDown:
      scene.reactor.shutdown()
      _ = try await server.closed
    }
    await expectError(ending == .shutDown ? .reactorShutDown : .closed) { _ = try await scene.loop.next() }
    #expect(await server.takeBuffered() == Array("1\n2\n3\n".utf8))
    await scene.pair.client.close()
  }

  /// The stream closes as soon as a write is done, which never happens. Until then no loop may go on.
  @Test(.inRealTime, arguments: Transport.allCases, [false, true])
  func `A stream that waits to close gives its loop no further element`(
    transport: Transport, readWaits: Bool
  ) async throws {
    var scene = try await Scene(transport) { $0 = .narrow(writeBudget: 2 * tooMuch) }
    let server = scene.server
    let write = server.enqueueWrite([UInt8](repeating: 0, count: tooMuch))
    if readWaits {
      for number in 1...3 { #expect(try await scene.loop.next() == "\(number)") }
      let reading = Task { try await server.read(.line()) }
      try await server.hasQueued(reads: 1)
      let looping = Task {
        var loop = server.lines.makeAsyncIterator()
        let line = try await loop.next()
        await expectError(.closed) { _ = try await loop.next() }
        return line
      }
      try await server.hasQueued(reads: 2)
      await server.beginToClose()
      try await scene.pair.client.write(utf8: "4\n5\n6\n")
      #expect(try await reading.value == "4")
      #expect(try await looping.value == "5")
      #expect(await server.takeBuffered() == Array("6\n".utf8))
    } else {
      await server.beginToClose()
      await expectError(.closed) { _ = try await scene.loop.next() }
    }
    await server.abort()
    await expectError(.closed) { try await write.value }
    await scene.pair.client.close()
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A stream that closes at its end closes behind the last element of a loop`(transport: Transport) async throws {
    var scene = try await Scene(transport) { $0.closesOnEndOfStream = true }
    try await scene.pair.client.finishWriting()
    try await eventually("the end arrives") { scene.server.hasPeerFinished }
    // No call comes between: it would end the look ahead.
    for number in 1...3 { #expect(try await scene.loop.next() == "\(number)") }
    #expect(try await "\(scene.server.closed.reason)" == "remote")
  }

  @Test(arguments: Transport.allCases)
  func `A carriage return and its line feed that come apart are one ending`(transport: Transport) async throws {
    let pair = try await transport.pair()
    var loop = pair.server.lines(ending: .any).makeAsyncIterator()
    for round in 0..<50 {
      try await pair.client.write(utf8: "a\r\nb\rc\r")
      for line in ["a", "b", "c"] { #expect(try await loop.next() == line, "round \(round)") }
      try await pair.client.write(utf8: "\n")
    }
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `A parser that takes the bytes or ends the stream is not followed`(
    transport: Transport, aborts: Bool
  ) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor)
    let server = pair.server
    let calls = Locked(0)
    let request = ReadRequest<[UInt8]?>.parsing { bytes in
      let call = calls.withLock { calls in
        calls += 1
        return calls
      }
      // The second call looks ahead, or is that of the second read.
      if call == 2 { aborts ? server.abortHere() : server.takeHere() }
      return bytes.isEmpty ? .incomplete() : .message([bytes[0]], length: 1)
    }
    try await pair.client.write(utf8: "abcd")
    let waiting = Task { try await server.read(exactly: 5) }
    try await server.hasBuffered(4)
    waiting.cancel()
    await expectCancellation { _ = try await waiting.value }
    var loop = server.messages(of: request).makeAsyncIterator()
    #expect(try await loop.next() == [97])
    if aborts {
      await expectError(.closed) { while try await loop.next() != nil {} }
    } else {
      try await pair.client.write(utf8: "e")
      #expect(try await loop.next() == [101])
    }
  }

  @Test(arguments: Transport.allCases)
  func `A loop by a parser gets what a read for each message gets`(transport: Transport) async throws {
    let pair = try await transport.pair()
    async let written: Void = {
      for number in 0..<2_000 { try await pair.client.write(utf8: "line \(number)\n") }
      try await pair.client.finishWriting()
    }()
    var number = 0
    for try await line in pair.server.messages(of: .parsing(ConsumingLineParser())) {
      #expect(String(decoding: line, as: UTF8.self) == "line \(number)")
      number += 1
    }
    #expect(number == 2_000)
    try await written
  }

  @Test(arguments: Transport.allCases)
  func `An error of a parser comes behind the messages before it, once`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "ab!c")
    struct Refusal: Error {}
    let request = ReadRequest<[UInt8]?>.parsing { bytes throws in
      if bytes.isEmpty { return .incomplete() }
      if bytes[0] == 33 { throw Refusal() }
      return .message([bytes[0]], length: 1)
    }
    var loop = pair.server.messages(of: request).makeAsyncIterator()
    #expect(try await loop.next() == [97])
    #expect(try await loop.next() == [98])
    await expectError(.invalidMessage) { _ = try await loop.next() }
    #expect(try await pair.server.read() == Array("!c".utf8))
  }

  @Test func `Looking ahead has a budget, as reads have`() async throws {
    let scene = try await Scene(.inMemory)
    let costs = await scene.server.lookAheadCosts()
    #expect(costs == [3, 1, nil])
  }
}

extension ByteStream {
  fileprivate func assumeLookahead(of limit: Int) { core.reads.queue.lookaheadLimit = LookaheadLimit(limit) }

  /// How many operations a look ahead takes from a whole budget, from one operation, and from nothing; `nil` if it found nothing.
  fileprivate func lookAheadCosts() -> [Int?] {
    [0, 63, 64].map { used in
      core.reads.queue.reclaimLookahead()
      core.reads.queue.lookaheadLimit = LookaheadLimit(64)
      core.reads.renewBudget()
      core.reads.budget.renew(core.registration.tick, ReadQueue<Operation>.budget)
      core.reads.budget.use(operations: used)
      let before = core.reads.budget.operations
      return core.lookAhead(.line(.lf, maximumLength: 9), executor).map { _ in before - core.reads.budget.operations }
    }
  }

  /// Begins to close. Then says, as a write does, that this call leaves the elements of a loop in place.
  fileprivate func beginToClose() {
    core.userCloses()
    core.beginClose(after: .pendingReadsAndWrites)
    core.writeLeavesElements()
  }

  /// What a parser can do, which runs in the stream's isolation.
  nonisolated fileprivate func abortHere() { assumeIsolated { $0.abort() } }
  nonisolated fileprivate func takeHere() { _ = assumeIsolated { $0.takeBuffered() } }
}
