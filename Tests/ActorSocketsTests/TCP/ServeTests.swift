import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct ServeTests {
  private struct Broken: Error {}

  @Test func `A server at its limit hears of every connection that ends`() async throws {
    let reactor = Reactor()
    let listener = try TCPListener.onLoopback(on: reactor)
    let serving = Task(executorPreference: reactor) {
      try await listener.serve(.init(limits: ServeLimits(connections: 1), on: .pool)) { _ in }
    }
    for _ in 0..<300 {
      let client = try RawSocket.connected(to: listener.address)
      #expect(try await client.receiveToEnd().isEmpty)
      client.close()
    }
    #expect(try await serving.stop().finished == 300)
  }

  @Test(.endsInTime(seconds: 120), arguments: [HandlerExecutor.pool, .reactor])
  func `A thousand connections are served at once`(place: HandlerExecutor) async throws {
    let listener = try TCPListener.onLoopback()
    let serving = Task {
      try await listener.serve(.init(on: place)) { connection in
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
      }
    }
    let allAreUp = Gate()
    let up = Locked(0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<1000 {
        group.addTask {
          let client = try await TCPConnection.connect(to: listener.endpoint)
          for round in 0..<2 {
            try await client.write(utf8: "\(number) \(round)\n")
            #expect(try await client.read(until: .lf) == Array("\(number) \(round)\n".utf8))
            if round == 0 {
              let isLast = up.withLock { up in
                up += 1
                return up == 1000
              }
              if isLast { allAreUp.open() } else { await allAreUp.wait() }
            }
          }
          await client.close()
        }
      }
      try await group.waitForAll()
    }
    let report = try await serving.stop()
    #expect(report.accepted == 1000 && report.finished == 1000 && report.aborted == 0)
  }

  @Test(arguments: ListenerKind.allCases)
  func `No more connections are served than the limit says, and the others wait`(kind: ListenerKind) async throws {
    let listener = try kind.listener()
    let active = Locked((now: 0, most: 0))
    let serving = Task {
      try await listener.serveAny(limits: ServeLimits(connections: 3)) { connection in
        active.withLock {
          $0.now += 1
          $0.most = max($0.most, $0.now)
        }
        for try await chunk in connection.chunks { try await connection.write(chunk) }
        active.withLock { $0.now -= 1 }
      }
    }
    let clients = try await listener.clients(10)
    for client in clients { try await client.send("hello") }
    try await eventually("three are served") { active.withLock { $0.now } == 3 }
    for client in clients {
      #expect(try await client.receive(exactly: 5) == Array("hello".utf8))
      await client.close()
    }
    let report = try await serving.stop()
    #expect(report.accepted == 10 && report.finished == 10)
    #expect(active.withLock { $0.most } == 3)
  }

  @Test(arguments: ListenerKind.allCases, [HandlerExecutor.pool, .reactor])
  func `A handler that throws ends only its own connection`(kind: ListenerKind, place: HandlerExecutor) async throws {
    let listener = try kind.listener()
    let serving = Task {
      try await listener.serveAny(on: place) { connection in
        let word = try await connection.read(until: .lf)
        if word == Array("break\n".utf8) { throw Broken() }
        try await connection.write(word)
      }
    }
    let good = try await listener.client()
    for _ in 0..<5 {
      let bad = try await listener.client()
      try await bad.send("break\n")
      await bad.expectReset()
    }
    try await good.send("fine\n")
    #expect(try await good.receiveToEnd() == Array("fine\n".utf8))
    await good.close()
    let report = try await serving.stop()
    #expect(report.accepted == 6 && report.finished == 1 && report.failed == 5 && report.aborted == 0)
  }

  @Test(arguments: ListenerKind.allCases, [true, false])
  func `A drain lets handlers finish, who know of it`(kind: ListenerKind, byCancelling: Bool) async throws {
    let listener = try kind.listener()
    let isServed = Gate()
    let goOn = Gate()
    let serving = Task {
      try await listener.serveAny { connection in
        #expect(!connection.isDraining)
        isServed.open()
        await goOn.wait()
        #expect(connection.isDraining)
        #expect(!Task.isCancelled)
        try await connection.write(utf8: "finished")
      }
    }
    let client = try await listener.client()
    await isServed.wait()
    if byCancelling { serving.cancel() } else { await listener.drain(within: .seconds(30)) }
    await expectError(.closed) { _ = try await listener.accept() }
    await #expect(throws: (any Error).self) { try await listener.client() }
    goOn.open()
    #expect(try await client.receiveToEnd() == Array("finished".utf8))
    await client.close()
    let report = try await serving.value
    #expect(report.accepted == 1 && report.finished == 1 && report.aborted == 0)
  }

  @Test(arguments: ListenerKind.allCases, [HandlerExecutor.pool, .reactor])
  func `When the drain is over, handlers are cancelled and their connections aborted`(
    kind: ListenerKind, place: HandlerExecutor
  ) async throws {
    let ended = Notes<Bool>()
    let server = try Served(kind.listener, on: place, drain: .within(.seconds(10))) { connection in
      defer { ended.add(Task.isCancelled) }
      _ = try await connection.read(exactly: 1)
    }
    let clients = try await server.listener.clients(3)
    try await eventually("all are served") { server.handled == 3 }
    await server.beginDraining()
    try await clients[0].send("x")
    try await clients[0].finishWriting()
    try await eventually("one is done") { ended.all == [false] }
    await server.time.advance(by: .seconds(10) - .nanoseconds(1))
    #expect(ended.all.count == 1)
    await server.time.advance(by: .nanoseconds(1))
    let report = try await server.serving.value
    #expect(ended.all == [false, true, true])
    #expect(report.accepted == 3 && report.finished == 1 && report.failed == 0 && report.aborted == 2)
    for client in clients.dropFirst() { await client.expectReset() }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Of several drains the earliest end counts`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener) { _ = try await $0.read(exactly: 1) }
    let client = try await server.client()
    await server.listener.drain(within: .seconds(100))
    await server.listener.drain(within: .seconds(5))
    server.serving.cancel()
    await server.time.advance(by: .seconds(5))
    #expect(try await server.serving.value.aborted == 1)
    await client.close()
  }

  @Test(arguments: [true, false], [true, false])
  func `Handlers run where they should, wherever serve was called`(onReactor: Bool, fromReactor: Bool) async throws {
    for kind in ListenerKind.allCases {
      let reactor = Reactor()
      let listener = try kind.listener(on: reactor)
      let preference: (any TaskExecutor)? = fromReactor ? reactor : nil
      let serving = Task(executorPreference: preference) {
        try await listener.serveAny(on: onReactor ? .reactor : .pool) { connection in
          for try await line in connection.lines {
            let isOnReactor = reactor.loop.isCurrent
            let isOnWorker = Worker.current != nil
            async let child = reactor.loop.isCurrent
            try await connection.write(utf8: "\(line) \(isOnReactor) \(await child) \(isOnWorker)\n")
          }
        }
      }
      for _ in 0..<5 {
        let client = try await listener.client()
        for round in 0..<5 {
          try await client.send("\(round)\n")
          let answer = "\(round) \(onReactor) \(onReactor) \(!onReactor)\n"
          #expect(try await client.receive(exactly: answer.utf8.count) == Array(answer.utf8))
        }
        await client.close()
      }
      #expect(try await serving.stop().finished == 5)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A listener is served once, with limits that make sense, and while it is open`(kind: ListenerKind) async throws {
    let listener = try kind.listener()
    await expectError(.invalidArgument) { try await listener.serveAny(limits: ServeLimits(connections: 0)) { _ in } }
    let isServed = Gate()
    let serving = Task { try await listener.serveAny { _ in isServed.open() } }
    let client = try await listener.client()
    await isServed.wait()
    await expectError(.invalidArgument) { try await listener.serveAny { _ in } }
    await client.close()
    #expect(try await serving.stop().finished == 1)
    await expectError(.closed) { try await listener.serveAny { _ in } }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A listener that is closed ends its server, whose handlers finish`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener) { try await $0.write(utf8: "\(try await $0.read(until: .lf).count)") }
    let client = try await server.client()
    await server.listener.close()
    try await client.send("1234\n")
    try await client.expectEnd(after: "5")
    await expectError(.closed) { _ = try await server.serving.value }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A reactor that is shut down ends its servers`(kind: ListenerKind) async throws {
    let codes = Notes<SocketError.Code>()
    let server = try Served(kind.listener) { connection in
      codes.add(await expectError(.reactorShutDown) { _ = try await connection.read() }.code)
    }
    let client = try await server.client()
    server.time.reactor.shutdown()
    await expectError(.reactorShutDown) { _ = try await server.serving.value }
    #expect(codes.all == [.reactorShutDown])
    await #expect(throws: (any Error).self) { try await client.receive() }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A task that is cancelled already serves no connection`(kind: ListenerKind) async throws {
    let listener = try kind.listener()
    let serving = Task {
      try await eventually("cancelled") { Task.isCancelled }
      return try await listener.serveAny { _ in Issue.record("somebody was served") }
    }
    #expect(try await serving.stop() == ServeReport())
  }
}
