import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a drain does to connections from which no byte has arrived.
@Suite struct DrainGraceTests {
  /// A server that answers lines, on manual time.
  private struct Scene {
    let time = ManualTime()
    let listener: any StreamListener
    let serving: Task<ServeReport, any Error>
    private let served = Notes<UInt64>()

    init(_ kind: ListenerKind, drain: Drain = .within(.seconds(100)), connections: Int = 10) throws {
      let listener = try kind.listener(on: time.reactor)
      self.listener = listener
      serving = Task { [served] in
        try await listener.serveAny(limits: .init(connections: connections), drain: drain) { connection in
          served.add(connection.id)
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
    }

    /// A client whose handler runs.
    func client() async throws -> Client {
      let count = served.all.count
      let client = try await listener.client()
      try await eventually("its handler runs") { served.all.count == count + 1 }
      return client
    }

    /// Begins the drain, and waits until it is under way.
    func beginDraining() async {
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
    }

    /// The number of handlers that have begun.
    var handled: Int { served.all.count }

    func report() async throws -> ServeReport { try await serving.value }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A request whose first byte arrives after the drain began is answered`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind)
      let client = try await scene.client()
      await scene.beginDraining()
      await scene.time.advance(by: .milliseconds(4_999))
      try await client.send("hello\n")
      #expect(try await client.receiveToEnd() == Array("hello\n".utf8))
      await client.close()
      #expect(try await scene.report().finished == 1)
    }
  }

  @Test(arguments: ListenerKind.allCases, [Duration.seconds(5), .milliseconds(1_500), .zero])
  func `A connection from which nothing arrives ends when its grace is over`(
    kind: ListenerKind, grace: Duration
  ) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, drain: .within(.seconds(100), newConnectionGrace: grace))
      let (silent, late) = (try await scene.client(), try await scene.client())
      await scene.beginDraining()
      if grace > .zero {
        await scene.time.advance(by: grace - .milliseconds(1))
        try await late.send("hello\n")
        #expect(try await late.receiveToEnd() == Array("hello\n".utf8))
        await scene.time.advance(by: .milliseconds(1))
      }
      #expect(try await silent.receiveToEnd() == [])
      for client in [silent, late] { await client.close() }
      #expect(try await scene.report().finished == 2)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A connection that was served before the drain has no grace`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind)
      let client = try await scene.client()
      try await client.send("hello\n")
      #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
      await scene.beginDraining()
      #expect(try await client.receiveToEnd() == [])
      await client.close()
      #expect(try await scene.report().finished == 1)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `The grace never exceeds the time of the drain`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, drain: .within(.seconds(2)))
      let client = try await scene.client()
      await scene.beginDraining()
      await scene.time.advance(by: .seconds(2))
      #expect(try await scene.report().aborted == 1)
      await client.expectReset()
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A connection that is accepted during the drain has a grace of its own`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, connections: 1)
      let first = try await scene.client()
      let (answered, silent) = (try await scene.listener.client(), try await scene.listener.client())
      await scene.beginDraining()
      await scene.time.advance(by: .seconds(5))
      #expect(try await first.receiveToEnd() == [])
      await first.close()
      try await eventually("the second one is accepted") { scene.handled == 2 }
      await scene.time.advance(by: .milliseconds(4_999))
      try await answered.send("hello\n")
      #expect(try await answered.receiveToEnd() == Array("hello\n".utf8))
      await answered.close()
      try await eventually("the third one is accepted") { scene.handled == 3 }
      await scene.time.advance(by: .seconds(5))
      #expect(try await silent.receiveToEnd() == [])
      await silent.close()
      #expect(try await scene.report().finished == 3)
    }
  }

  /// Servers take over from each other, as in a restart, while clients make one request for each connection. Sockets are left to the
  /// kernel only while another server has them, too.
  @Test func `Restarts over one shared listener lose no request`() async throws {
    try await within("all is answered", seconds: 120) {
      let socket = try RawSocket.listening(backlog: 1_000)
      let address = try socket.address
      let isOver = Gate()
      let answers = Locked(0)
      let clients = (0..<8).map { number in
        Task {
          while !isOver.isOpen {
            let client = try await TCPConnection.connect(to: .address(address))
            // The request comes a while after the connection.
            for _ in 0..<(number * 3) { await Task.yield() }
            try await client.write(utf8: "request \(number)\n")
            #expect(try await client.readToEnd() == Array("request \(number)\n".utf8))
            await client.close()
            answers.withLock { $0 += 1 }
          }
        }
      }
      var last: Task<ServeReport, any Error>?
      for _ in 0..<30 {
        let listener = try TCPListener.adopt(fileDescriptor: dup(socket.number), reactor: Reactor())
        let serving = Task {
          try await listener.serve { connection in
            guard let line = try await connection.readLineOrEnd() else { return }
            try await connection.write(utf8: line + "\n")
          }
        }
        last?.cancel()
        if let report = try await last?.value {
          #expect(report.finished == report.accepted && report.accepted > 0, "\(report)")
        }
        last = serving
        let goal = answers.withLock { $0 } + 50
        try await eventually("requests are answered") { answers.withLock { $0 } >= goal }
      }
      isOver.open()
      for client in clients { try await client.value }
      last?.cancel()
      _ = try await last?.value
      socket.close()
    }
  }
}

extension TCPConnection {
  /// Reads one line, or returns `nil` at the end.
  fileprivate func readLineOrEnd() async throws -> String? {
    for try await line in lines { return line }
    return nil
  }
}
