import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Handlers that run in the isolation of their connections.
@Suite(.endsInTime) struct IsolatedHandlerTests {
  private struct Broken: Error {}

  /// Echoes lines. The count is a variable of the handler, which no other thread may see.
  private static func echo(_ connection: isolated some ByteStream) async throws {
    var count = 0
    for try await line in connection.lines {
      connection.preconditionIsolated()
      count += 1
      try await connection.write(utf8: "\(count) \(line)\n")
      connection.preconditionIsolated()
    }
    // A synchronous member needs no `await`.
    #expect(connection.status.queuedReads == 0)
  }

  private func serve<Listener: StreamListener>(_ listener: Listener) async throws -> ServeReport {
    try await listener.serve { (connection: isolated Listener.Connection) in try await Self.echo(connection) }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A handler runs in the isolation of its connection, on the reactor's thread`(kind: ListenerKind) async throws {
    let listener = try kind.listener(on: Reactor())
    let serving = Task { try await serve(listener) }
    let clients = try await listener.clients(20)
    for number in 1...3 {
      for client in clients { try await client.send("line \(number)\n") }
      for client in clients {
        #expect(try await client.receive(exactly: 9) == Array("\(number) line \(number)\n".utf8))
      }
    }
    // The drain ends the loops of the handlers.
    serving.cancel()
    for client in clients { #expect(try await client.receiveToEnd().isEmpty) }
    let report = try await serving.value
    #expect(report.accepted == 20 && report.finished == 20)
  }

  @Test(arguments: [true, false])
  func `A handler on the reactor begins and ends although all threads of Swift's pool are busy`(
    isIsolated: Bool
  ) async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let serving = Task {
      if isIsolated { return try await serve(listener) }
      return try await listener.serve(.init(on: .reactor)) { try await Self.echo($0) }
    }
    @Sendable func echo() async throws {
      let client = try RawSocket.connected(to: listener.address)
      try client.send("line\n")
      #expect(try await client.receive(exactly: 7) == Array("1 line\n".utf8))
      client.finishWriting()
      #expect(try await client.receiveToEnd().isEmpty)
    }
    try await echo()
    try await whilePoolIsBusy { try await echo() }
    #expect(try await serving.stop().finished == 2)
  }

  @Test func `A call takes as few jobs whatever the task of serve prefers`() async throws {
    for preference in [nil, Reactor(), WorkerPool.shared] as [(any TaskExecutor)?] {
      let reactor = preference as? Reactor ?? Reactor()
      let listener = try TCPListener.onLoopback(on: reactor)
      let serving = Task(executorPreference: preference) { try await serve(listener) }
      let client = try RawSocket.connected(to: listener.address)
      func echo(_ number: Int) async throws {
        try client.send("line\n")
        let answer = Array("\(number) line\n".utf8)
        #expect(try await client.receive(exactly: answer.count) == answer)
      }
      try await echo(1)
      let before = reactor.metrics.jobs
      for number in 2...41 { try await echo(number) }
      // One for the event and the call that it resumes. A wrong preference would cost another one.
      let jobs = reactor.metrics.jobs - before
      #expect(jobs < 60, "40 echoes took \(jobs) jobs")
      client.close()
      _ = try await serving.stop()
    }
  }

  @Test func `The error of a handler is not reported on the reactor's thread`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let wasOnReactor = Notes<Bool>()
    let options = ServeOptions(onFailure: { _ in
      wasOnReactor.add(listener.executor.isIsolatingCurrentContext() ?? true)
    })
    let serving = Task {
      try await listener.serve(options) { (connection: isolated TCPConnection) in throw Broken() }
    }
    let client = try RawSocket.connected(to: listener.address)
    _ = try? await client.receiveToEnd()
    #expect(try await serving.stop().failed == 1)
    #expect(wasOnReactor.all == [false])
  }

  @Test func `A closure whose parameter has no type runs on the pool`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let wasIsolated = Notes<Bool>()
    let serving = Task {
      try await listener.serve { connection in
        wasIsolated.add(connection.executor.isIsolatingCurrentContext() ?? true)
      }
    }
    let client = try RawSocket.connected(to: listener.address)
    #expect(try await client.receiveToEnd().isEmpty)
    _ = try await serving.stop()
    #expect(wasIsolated.all == [false])
  }

  @Test func `With several reactors, each handler runs on the thread of its connection's reactor`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let reactors = Notes<ObjectIdentifier>()
    let serving = Task {
      try await listener.serve(.init(reactors: 3)) { (connection: isolated TCPConnection) in
        reactors.add(ObjectIdentifier(connection.executor.reactor))
        try await Self.echo(connection)
      }
    }
    for _ in 0..<9 {
      let client = try RawSocket.connected(to: listener.address)
      try client.send("a\n")
      #expect(try await client.receive(exactly: 4) == Array("1 a\n".utf8))
      client.close()
    }
    _ = try await serving.stop()
    #expect(Set(reactors.all).count == 3)
  }

  @Test func `Errors, drains and cancellation reach a handler as they reach others`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let failures = Notes<String>()
    let outcomes = Notes<String>()
    let waits = Gate()
    let serving = Task {
      let options = ServeOptions(
        drain: .within(.zero, idleReads: .wait), onFailure: { failures.add("\(type(of: $0.error))") })
      return try await listener.serve(options) { (connection: isolated TCPConnection) in
        if try await connection.read(exactly: 1) == [0] { throw Broken() }
        waits.open()
        defer { connection.preconditionIsolated() }
        do {
          _ = try await connection.read()
        } catch is CancellationError {
          outcomes.add("cancelled: \(Task.isCancelled)")
        }
      }
    }
    let broken = try RawSocket.connected(to: listener.address)
    try broken.send([0])
    await #expect(throws: SystemError.self) { try await broken.receive() }
    let waiting = try RawSocket.connected(to: listener.address)
    try waiting.send([1])
    await waits.wait()
    let report = try await serving.stop()
    #expect(report.failed == 1 && report.aborted == 1 && report.accepted == 2)
    #expect(failures.all == ["Broken"])
    #expect(outcomes.all == ["cancelled: true"])
  }

  /// The handler's calls need no queue, but calls that were queued before come first.
  @Test func `Calls of others that were made before come before the handler's`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let serving = Task {
      try await listener.serve { (connection: isolated TCPConnection) in
        for round in 0..<100 {
          // Queued while the handler's own code runs.
          let earlier = connection.enqueueWrite(Array("a\(round) ".utf8))
          try await connection.write(utf8: "b\(round) ")
          try await earlier.value
        }
      }
    }
    let client = try RawSocket.connected(to: listener.address)
    let text = String(decoding: try await client.receiveToEnd(), as: UTF8.self)
    #expect(text == (0..<100).map { "a\($0) b\($0) " }.joined())
    _ = try await serving.stop()
  }

  /// A handler of another connection has work on the workers, which the loop of the reactor collects.
  @Test func `Work for the workers begins while a handler computes`() async throws {
    let listener = try TCPListener.onLoopback(on: Reactor())
    let begunMeanwhile = Notes<Bool>()
    let serving = Task {
      try await listener.serve { (connection: isolated TCPConnection) in
        for try await _ in connection.lines {
          let hasRun = Gate()
          Task(executorPreference: WorkerPool.shared) { hasRun.open() }
          begunMeanwhile.add(blockThread { hasRun.isOpen })
          try await connection.write(utf8: "\n")
        }
      }
    }
    let client = try RawSocket.connected(to: listener.address)
    for _ in 0..<20 {
      try client.send("\n")
      #expect(try await client.receive(exactly: 1) == [10])
    }
    _ = try await serving.stop()
    #expect(begunMeanwhile.all == [Bool](repeating: true, count: 20))
  }
}
