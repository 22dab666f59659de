import ActorSocketsTLS
import ActorSocketsTestTraits
import ActorSocketsTesting
import ByteText
import ExampleSupport
import Synchronization
import Testing

@testable import ShortPrograms

@Suite struct PortForwarderTests {
  private func forwarder(to target: Endpoint) -> PortForwarder {
    var forwarder = PortForwarder(to: target)
    (forwarder.options.stopSignals, forwarder.options.drain) = ([], .within(.seconds(1)))
    return forwarder
  }

  private static let echo: @Sendable (TCPConnection) async throws -> Void = { try await $0.write(from: $0.chunks) }

  @Test func `Bytes pass in both directions, at the rate, and the end passes, too`() async throws {
    try await within("the bytes are back") {
      try await withServer(nil, Self.echo) { target async throws in
        let listener = try PortForwarder.bind(to: .host("127.0.0.1", port: 0))
        var forwarder = forwarder(to: target)
        forwarder.rate = RateLimit(bytesPerSecond: 100_000, burst: 50_000)
        let (report, _) = try await during({ [forwarder] in try await forwarder.run(listener) }) {
          let start = ContinuousClock.now
          let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
          let bytes = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
          _ = client.enqueueWrite(bytes)
          #expect(try await client.read(exactly: bytes.count) == bytes)
          #expect(ContinuousClock.now - start > .milliseconds(400))
          try await client.finishWriting()
          #expect(try await client.read() == nil)
          await client.close()
          await listener.drain(within: .seconds(10))
        }
        #expect(report.finished == 1)
      }
    }
  }

  @Test func `A target that is not there, and a client that says nothing, cost only their own connection`() async throws
  {
    try await within("the connections have ended") {
      try await withServer(nil, Self.echo) { target async throws in
        let listener = try PortForwarder.bind(to: .host("127.0.0.1", port: 0), idleTimeout: .milliseconds(300))
        var forwarder = forwarder(to: target)
        forwarder.options.limits.connectionsPerPeer = 2
        let (report, _) = try await during({ [forwarder] in try await forwarder.run(listener) }) {
          let server = Endpoint.address(listener.localAddresses[0])
          let silent = try await TCPConnection.connect(to: server)
          let second = try await TCPConnection.connect(to: server)
          try await second.write(utf8: "hello")
          #expect(try await second.read(exactly: 5) == Array("hello".utf8))
          // A connection may be reset before it is known here.
          await #expect(throws: SocketError.self) { try await TCPConnection.connect(to: server).read() }
          #expect(try await silent.read() == nil)
          await listener.drain(within: .zero)
        }
        #expect(report.refused == 1)
      }
      let listener = try PortForwarder.bind(to: .host("127.0.0.1", port: 0))
      let lost = forwarder(to: .host("127.0.0.1", port: 1))
      let (report, _) = try await during({ try await lost.run(listener) }) {
        let server = Endpoint.address(listener.localAddresses[0])
        await #expect(throws: SocketError.self) { try await TCPConnection.connect(to: server).read() }
        await listener.drain(within: .seconds(10))
      }
      #expect(report.accepted == 1 && report.finished == 0)
    }
  }
}

/// The chat in simulations: on hosts of a simulated network.
@Suite struct ChatServerTests {
  private static let address = Endpoint.host("server", port: 7000)

  /// Starts the server, and returns how to stop it.
  private func start(_ simulation: Simulation, linesPerSecond: Int = 20) -> AsyncStream<TCPListener> {
    let (listeners, continuation) = AsyncStream.makeStream(of: TCPListener.self)
    simulation.host("server").start {
      let listener = try ChatServer.bind(to: .port(7000))
      continuation.yield(listener)
      var chat = ChatServer()
      (chat.options.stopSignals, chat.linesPerSecond) = ([], linesPerSecond)
      _ = try await chat.run(listener)
    }
    return listeners
  }

  private func join(_ name: String) async throws -> TCPConnection {
    let member = try await TCPConnection.connect(to: Self.address)
    try #require(try await member.nextLine() == "Who are you?")
    try await member.write(utf8: "\(name)\n")
    try #require(try await member.nextLine() == "\(name) has come")
    return member
  }

  @Test(.simulated(seeds: 20)) func `Members hear each other, until the server stops`() async throws {
    let simulation = try #require(Simulation.current)
    let listeners = start(simulation)
    try await simulation.host("clients").run {
      let ada = try await join("Ada")
      let grace = try await join("Grace")
      try #require(try await ada.nextLine() == "Grace has come")
      try await ada.write(utf8: "hello \u{1B}[2J\u{202E}\n")
      try #require(try await grace.nextLine() == "Ada: hello [2J\u{202E}")

      let other = try await TCPConnection.connect(to: Self.address)
      _ = try await other.nextLine()
      try await other.write(utf8: "Ada\n")
      try #require(try await other.nextLine() == "This name is taken.")

      await grace.abort()
      try #require(try await ada.nextLine() == "Grace has left")
      for await listener in listeners {
        await listener.drain(within: .seconds(5))
        break
      }
      try #require(try await ada.nextLine() == "The server stops.")
      try #require(try await ada.read() == nil)
    }
  }

  @Test func `On real sockets, a member who is cut off in a line is announced as gone`() async throws {
    try await within("the member has left") {
      let listener = try ChatServer.bind(to: .host("127.0.0.1", port: 0))
      let server = Endpoint.address(listener.localAddresses[0])
      var chat = ChatServer()
      chat.options.stopSignals = []
      let (report, _) = try await during({ [chat] in try await chat.run(listener) }) {
        let ada = try await TCPConnection.connect(to: server)
        try await ada.write(utf8: "Ada\n")
        for line in ["Who are you?", "Ada has come"] { #expect(try await ada.nextLine() == line) }
        let grace = try await TCPConnection.connect(to: server)
        try await grace.write(utf8: "Grace\nhello\nhalf a li")
        for line in ["Grace has come", "Grace: hello"] { #expect(try await ada.nextLine() == line) }
        try await grace.finishWriting()
        #expect(try await ada.nextLine() == "Grace has left")
        // A name that does not end.
        let flood = try await TCPConnection.connect(to: server)
        _ = flood.enqueueWrite(Array(repeating: 97, count: 1 << 20))
        await #expect(throws: SocketError.self) { while try await flood.read() != nil {} }
        await ada.close()
        await listener.drain(within: .seconds(10))
      }
      #expect(report.finished == 1 && report.failedByPeer == 2)
    }
  }

  @Test(.simulated(seeds: 2)) func `A member who does not read is disconnected, and so is one who floods`() async throws
  {
    let simulation = try #require(Simulation.current)
    _ = start(simulation, linesPerSecond: 120)
    try await simulation.host("clients").run {
      let slow = try await join("slow")
      let talker = try await join("talker")
      let reader = try await join("reader")
      let line = String(repeating: "x", count: 900) + "\n"
      async let heard: Int = {
        var count = 0
        while let line = try await reader.nextLine(), !line.hasPrefix("slow") { count += 1 }
        return count
      }()
      // 120 lines a second are allowed.
      while !slow.hasPeerFinished {
        for _ in 1...100 { try await talker.write(utf8: line) }
        try await simulation.clock.sleep(for: .milliseconds(1_100))
      }
      try #require(try await heard >= 100)
      let flooder = try await join("flooder")
      await #expect(throws: SocketError.self) {
        while true { try await flooder.write(utf8: "more\n") }
      }
    }
  }
}

@Suite struct FileTransferTests {
  private func withSender(_ folder: Folder, _ body: (Endpoint) async throws -> Void) async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    var sender = FileSender(folder.path)
    sender.options.stopSignals = []
    _ = try await during({ [sender] in try await sender.run(listener) }) {
      try await body(.address(listener.localAddresses[0]))
      await listener.drain(within: .seconds(10))
    }
  }

  private func patient(_ receiver: FileReceiver) -> FileReceiver {
    var receiver = receiver
    receiver.patience = .milliseconds(300)
    return receiver
  }

  @Test func `A file that was received in part is completed`() async throws {
    try await within("the file is complete") {
      let (source, target) = (try Folder(), try Folder())
      let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
      try source.write("data", bytes)
      // A server that ends in the middle.
      try await withServer(
        nil,
        { connection in
          _ = try await connection.nextLine()
          try await connection.write(utf8: "OK \(bytes.count)\n")
          try await connection.write(bytes[..<300_000])
        }
      ) { server async throws in
        let error = await #expect(throws: SocketError.self) {
          try await FileReceiver(server).run("data", to: target.file("copy"))
        }
        #expect(error?.code == .endOfStream && error?.bytesTransferred == 300_000)
      }
      #expect(throws: (any Error).self) { try target.read("copy") }
      try await withSender(source) { server async throws in
        let rest = try await FileReceiver(server).run("data", to: target.file("copy"))
        #expect(rest == 700_000)
        #expect(try target.read("copy") == bytes)
        #expect(try await FileReceiver(server).run("data", to: target.file("other")) == 1_000_000)
      }
    }
  }

  @Test(arguments: ["../secret", ".hidden", "missing", "folder/file", ""])
  func `Only files of the folder are sent`(name: String) async throws {
    try await within("the request is refused") {
      let (source, target) = (try Folder(), try Folder())
      for file in ["folder/file", ".hidden"] { try source.write(file, [1]) }
      try await withSender(source) { server async throws in
        await #expect(throws: FileReceiver.Failure.self) {
          try await FileReceiver(server).run(name, to: target.file("a"))
        }
      }
    }
  }

  @Test(arguments: ["stall\n", "OK \(1 << 50)\n", "OK -1\n", String(repeating: "x", count: 10_000), "OK 10\n1234"])
  func `A bad server ends the call and leaves nothing that is too long`(answer: String) async throws {
    try await within("the call ends") {
      let target = try Folder()
      try await withServer(
        nil,
        { connection in
          _ = try await connection.nextLine()
          if answer.utf8.first != UInt8(ascii: "s") { try await connection.write(utf8: answer) }
          try await stall(connection)
        }
      ) { server async throws in
        let receiver = patient(FileReceiver(server))
        await #expect(throws: (any Error).self) { try await receiver.run("data", to: target.file("copy")) }
        let part = try target.read("copy.part")
        #expect(part.count <= 4)
      }
    }
  }
}

@Suite struct JobServerTests {
  private struct Contexts {
    let server: TLSContext
    let client: TLSContext

    init() throws {
      let identity = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
      server = try TLSContext(TLSConfiguration(identity: identity))
      client = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
    }
  }

  private func withJobServer(
    _ listener: TCPListener, _ contexts: Contexts, connectionsPerPeer: Int = 100,
    _ body: (Endpoint) async throws -> Void
  ) async throws -> ServeReport {
    var server = JobServer()
    (server.options.stopSignals, server.timeLimit) = ([], .seconds(5))
    server.options.limits.connectionsPerPeer = connectionsPerPeer
    return try await during({ [server] in try await server.run(listener, tls: contexts.server) }) {
      try await body(.address(listener.localAddresses[0]))
      await listener.drain(within: .seconds(10))
    }.0
  }

  private func expect(_ answer: String, for job: String, _ client: JobClient) async throws {
    #expect(try await client.run(job) == answer)
  }

  /// Submits until there is a worker.
  private func submit(_ job: String, _ client: JobClient) async throws -> String {
    while true {
      let answer = try await client.run(job)
      if !answer.hasPrefix("error there is no worker") { return answer }
      await Task.yield()
    }
  }

  @Test func `Jobs are done by workers, which connect again after the server was started again`() async throws {
    try await within("all jobs are done") {
      let contexts = try Contexts()
      let first = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let endpoint = Endpoint.address(first.localAddresses[0])
      let worker = Task { try await JobWorker(endpoint, tls: contexts.client).run { $0.uppercased() } }
      for number in 1...2 {
        let listener = number == 1 ? first : try TCPListener.bind(to: endpoint)
        let report = try await withJobServer(listener, contexts) { server async throws in
          let client = JobClient(server, tls: contexts.client)
          #expect(try await submit("hello \(number)", client) == "ok HELLO \(number)")
          try await withThrowingTaskGroup { group in
            for job in 0..<50 { group.addTask { try await expect("ok JOB \(job)", for: "job \(job)", client) } }
            try await group.waitForAll()
          }
        }
        #expect(report.aborted == 0)
      }
      worker.cancel()
      await #expect(throws: CancellationError.self) { try await worker.value }
    }
  }

  @Test func `A job whose worker is lost is done by another one`() async throws {
    try await within("the job is done") {
      let contexts = try Contexts()
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      _ = try await withJobServer(listener, contexts) { server async throws in
        let client = JobClient(server, tls: contexts.client)
        let gate = Gate()
        let isBadBusy = Flag()
        let good = Task {
          try await JobWorker(server, tls: contexts.client).run { job in
            if job.hasPrefix("wait") { await gate.wait() }
            return job.uppercased()
          }
        }
        #expect(try await submit("hello", client) == "ok HELLO")
        let bad = try await TLSConnection.connect(to: server, context: contexts.client)
        _ = try await bad.ask(utf8: "work\n", for: .until(.lf))
        try await withThrowingTaskGroup { group in
          group.addTask { try await expect("ok WAIT", for: "wait", client) }
          group.addTask {
            _ = try await bad.nextLine()
            isBadBusy.set()
          }
          // The good worker waits, so one of these jobs goes to the bad one.
          for job in 1...500 where !isBadBusy.isSet {
            group.addTask { try await expect("ok JOB \(job)", for: "job \(job)", client) }
            await Task.yield()
          }
          while !isBadBusy.isSet { await Task.yield() }
          await bad.abort()
          gate.open()
          try await group.waitForAll()
        }
        good.cancel()
      }
    }
  }

  @Test func `A worker that leaves is forgotten at once`() async throws {
    try await within("all workers have come and gone") {
      let contexts = try Contexts()
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let report = try await withJobServer(listener, contexts, connectionsPerPeer: 5) { server in
        for _ in 1...20 {
          let worker = try await TLSConnection.connect(to: server, context: contexts.client)
          let answer = try await worker.ask(utf8: "work\n", for: .until(.lf))
          #expect(answer == Array("ready\n".utf8))
          await worker.close()
        }
      }
      #expect(report.refused == 0 && report.finished == 20)
    }
  }

  @Test func `A peer that speaks no TLS or floods is disconnected`() async throws {
    try await within("the connections have ended") {
      let contexts = try Contexts()
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      _ = try await withJobServer(listener, contexts) { server async throws in
        let plain = try await TCPConnection.connect(to: server)
        try await plain.write(utf8: "work\n")
        while try await plain.read() != nil {}
        let flood = try await TLSConnection.connect(to: server, context: contexts.client)
        try await flood.write(utf8: "submit\n")
        await #expect(throws: (any Error).self) {
          while true { try await flood.write(Array(repeating: 97, count: 1 << 16)) }
        }
        // Connecting again would not help a worker that does not trust the server.
        let distrustful = JobWorker(server, tls: try TLSContext())
        await #expect(throws: TLSError.self) { try await distrustful.run { $0 } }
        let alone = JobClient(server, tls: contexts.client)
        #expect(try await alone.run("job") == "error there is no worker")
      }
    }
  }
}
