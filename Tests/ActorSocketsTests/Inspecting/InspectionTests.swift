import ActorSocketsTLS
import ActorSocketsTesting
import EpollReactor
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime, .tags(.manualMemory)) struct InspectionTests {
  private func parsed(_ lines: [String]) throws -> [[String: Any]] {
    try lines.map { line in
      try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
  }

  private func report() async throws -> [[String: Any]] { try parsed(try await Inspection.report()) }

  private func number(_ value: Any?) -> Double { (value as? NSNumber)?.doubleValue ?? -1 }

  private func line(labelled label: String, in lines: [[String: Any]]) throws -> [String: Any] {
    try #require(lines.first { $0["label"] as? String == label }, "no line has the label \(label)")
  }

  private func lines(ofType type: String, in lines: [[String: Any]]) -> [[String: Any]] {
    lines.filter { $0["type"] as? String == type }
  }

  /// Reads an inspection to its end, as a client does.
  private func ask(_ path: String) async throws -> [[String: Any]] {
    let client = try await TCPConnection.connect(to: .unix(path: path), timeout: .within(.seconds(10)))
    var lines: [String] = []
    for try await line in client.lines(maximumLength: 1 << 20, timeout: .seconds(10)) { lines.append(line) }
    await client.close()
    return try parsed(lines)
  }

  private func serving(_ path: String, _ body: () async throws -> Void) async throws {
    let serving = Task { try await Inspection.serve(on: .unix(path: path)) }
    try await eventually("the socket is there") { FileFacts(path) != nil }
    do { try await body() } catch {
      serving.cancel()
      throw error
    }
    serving.cancel()
    try await serving.value
    #expect(FileFacts(path) == nil, "the file is removed at the end")
  }

  @Test func `A stuck read is named, with its age and the time that it has left`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    let server = try await listener.accept()
    client.label = "stuck \u{1b}[31m"
    let reading = Task { try? await client.read(exactly: 10, timeout: .seconds(1000)) }
    try await client.hasQueued(reads: 1)
    try await server.write([1, 2, 3])
    try await client.hasBuffered(3)
    let lines = try await report()
    #expect(lines.first?["type"] as? String == "process")
    #expect(number(lines.first?["pid"]) == Double(getpid()))
    #expect(lines.last?["type"] as? String == "end" && lines.last?["complete"] as? Bool == true)
    let found = try line(labelled: "stuck \u{1b}[31m", in: lines)
    #expect(found["kind"] as? String == "tcp" && found["state"] as? String == "open")
    #expect(number(found["id"]) == Double(client.id) && number(found["received"]) == 3 && number(found["unread"]) == 3)
    #expect(found["remote"] as? String == "\(listener.localAddresses[0])")
    let operation = try #require((found["operations"] as? [[String: Any]])?.first)
    #expect(operation["what"] as? String == "read exactly 10 bytes")
    #expect(number(operation["done"]) == 3 && number(operation["total"]) == 10)
    #expect(number(operation["age"]) >= 0 && number(operation["age"]) < 60)
    #expect(number(operation["left"]) > 900 && number(operation["left"]) <= 1000)
    #expect(number((found["tcp"] as? [String: Any])?["cwnd"]) > 0)
    reading.cancel()
    _ = await reading.value
    await client.close()
    await server.close()
    await listener.close()
  }

  @Test func `Each kind of socket has its line`() async throws {
    let name = "kinds \(UInt64.random(in: 0 ... .max))"
    let folder = try SocketFolder()
    let unixListener = try TCPListener.bind(to: .unix(path: folder("a")))
    let unix = try await TCPConnection.connect(to: .unix(path: folder("a")))
    let (near, far) = InMemoryConnection.pair()
    let memoryListener = InMemoryListener()
    let pool = ConnectionPool { try await memoryListener.connect() }
    var configuration = UDPEndpoint.Configuration()
    configuration.label = name + " udp"
    let udp = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
    let receiving = Task { try? await udp.receive(timeout: .seconds(1000)) }
    try await eventually("the receive waits") { await udp.metrics.pendingReceives == 1 }
    unix.label = name + " unix"
    near.label = name + " memory"
    try await pool.withConnection { connection in
      connection.label = name + " pooled"
      let lines = try await report()
      #expect(try line(labelled: name + " unix", in: lines)["kind"] as? String == "unix")
      #expect(try line(labelled: name + " memory", in: lines)["kind"] as? String == "memory")
      #expect(try line(labelled: name + " pooled", in: lines)["kind"] as? String == "memory")
      let endpoint = try line(labelled: name + " udp", in: lines)
      #expect(endpoint["type"] as? String == "endpoint")
      let operation = try #require((endpoint["operations"] as? [[String: Any]])?.first)
      #expect(operation["what"] as? String == "receive" && number(operation["left"]) > 900)
      #expect(lines.count { $0["label"] as? String == name + " udp" } == 1, "an endpoint with two sockets has one line")
      #expect(lines.contains { $0["type"] as? String == "pool" && number($0["inUse"]) >= 1 })
      #expect(
        lines.contains {
          $0["type"] as? String == "listener" && ($0["addresses"] as? [String])?.first?.contains(folder("a")) == true
        })
      #expect(lines.contains { $0["type"] as? String == "reactor" && $0["shared"] as? Bool == true })
    }
    receiving.cancel()
    _ = await receiving.value
    await udp.close()
    await unix.close()
    await near.abort()
    await far.abort()
    await pool.close()
    await memoryListener.close()
    await unixListener.close()
  }

  @Test func `An encrypted connection has one line, with the version and the figures of its socket`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let context = try TestContexts.context(.v13)
    let serving = Task { try await listener.serve(tls: context) { connection in _ = try await connection.read() } }
    let client = try await TLSConnection.connect(
      to: .host("127.0.0.1", port: listener.localAddresses[0].port ?? 0), context: context, serverName: "server.test")
    try await client.handshake()
    let own = try await report().filter { number($0["id"]) == Double(client.id) }
    #expect(own.count == 1)
    #expect(own.first?["kind"] as? String == "tls")
    #expect((own.first?["tls"] as? [String: Any])?["version"] as? String == "TLS 1.3")
    #expect(number((own.first?["tcp"] as? [String: Any])?["cwnd"]) > 0)
    await client.close()
    await listener.close()
    serving.cancel()
    _ = try? await serving.value
  }

  @Test func `A blocked reactor does not hold up the report, and its line says how long its job has run`() async throws
  {
    let blocked = Reactor()
    let folder = try SocketFolder()
    let name = "beside \(UInt64.random(in: 0 ... .max))"
    let (near, far) = InMemoryConnection.pair()
    near.label = name
    try await serving(folder()) {
      try await blocked.whileBlocked {
        for _ in 0..<2 {
          let lines = try await ask(folder())
          let silent = try #require(lines.first { $0["type"] as? String == "silent" }, "no reactor was silent")
          #expect(number(silent["waited"]) >= 1 && number(silent["running"]) >= 1)
          #expect(lines.last?["complete"] as? Bool == false)
          _ = try line(labelled: name, in: lines)
        }
        // Each of these reports has an inspector of its own.
        for _ in 0..<3 {
          let silent = lines(ofType: "silent", in: try await report())
          #expect(number(silent.first?["waited"]) >= 1)
        }
        let queued = lines(ofType: "reactor", in: try await report()).map { number($0["queued"]) }
        #expect(queued.max() == 1, "a silent reactor is asked once, whoever asks")
      }
      try await eventually("it answers again") { try await ask(folder()).last?["complete"] as? Bool == true }
    }
    await near.abort()
    await far.abort()
  }

  @Test func `A report keeps no reactor, and leaves nothing in the queue of one that has ended`() async throws {
    let own = Reactor()
    let count = own.related.count
    var gone: Reactor? = Reactor()
    let listed = try #require(own.related.last)
    #expect(own.related.count == count + 1 && gone != nil)
    gone = nil
    try await eventually("the reactor has left the list") { own.related.count == count }
    let isAsked = listed.visitTable(from: 0, most: 1, askedAt: 1, { _, _ -> Int? in nil }, done: { _, _ in })
    #expect(!isAsked && listed.waitsSince == nil)
  }

  @Test func `A reactor that is asked keeps no inspector`() async throws {
    let blocked = Reactor()
    let own = Reactor()
    try await blocked.whileBlocked {
      let before = own.related.count
      for _ in 0..<3 {
        let asking = Task { try await Inspection.report() }
        try await eventually("the inspector has a reactor") { own.related.count > before }
        asking.cancel()
        _ = await asking.result
      }
      try await eventually("the inspectors have ended") { own.related.count <= before }
    }
  }

  @Test func `Clients that end early wait for no thread of the pool`() async throws {
    let folder = try SocketFolder()
    let serving = Task(executorPreference: Reactor()) { try await Inspection.serve(on: .unix(path: folder())) }
    try await eventually("the socket is there") { FileFacts(folder()) != nil }
    let pairs = (0..<2000).map { _ in InMemoryConnection.pair() }
    try await whilePoolIsBusy {
      for _ in 0..<2 * Inspection.mostClients {
        let client = try await TCPConnection.connect(to: .unix(path: folder()), timeout: .within(.seconds(10)))
        _ = try await client.read(upTo: 1, timeout: .seconds(10))
        await client.abort()
      }
      let client = try await TCPConnection.connect(to: .unix(path: folder()), timeout: .within(.seconds(10)))
      let lines = try await client.readToEnd(maximumLength: 1 << 24, timeout: .seconds(30))
      #expect(lines.count > 4000)
      await client.close()
    }
    withExtendedLifetime(pairs) {}
    serving.cancel()
    try await serving.value
  }

  @Test func `Only unix sockets are served, and their file is for its owner`() async throws {
    for endpoint in [Endpoint.port(0), .host("localhost", port: 0), .unix(path: "@inspect"), .unix(path: "")] {
      let error = await expectError(.invalidArgument) { try await Inspection.serve(on: endpoint) }
      #expect(error.description.contains("unix"), "\(error)")
    }
    let folder = try SocketFolder()
    try await serving(folder()) { #expect(FileFacts(folder())?.permissions == 0o600) }
  }

  @Test func `The user of the process and root may ask, and others may not`() {
    #expect(Inspection.mayAsk(1000, of: 1000))
    #expect(Inspection.mayAsk(0, of: 1000))
    #expect(!Inspection.mayAsk(1001, of: 1000))
    #expect(!Inspection.mayAsk(1000, of: 0))
  }

  @Test func `Another user sees nothing, even if the file lets it connect`() async {
    await #expect(processExitsWith: .success) {
      // Without root, no other user can be tried.
      if getuid() != 0 { return }
      let folder = try SocketFolder()
      let serving = Task { try await Inspection.serve(on: .unix(path: folder())) }
      try await eventually("the socket is there") { FileFacts(folder()) != nil }
      // SAFETY: the texts are valid for the calls.
      unsafe chmod(folder.path, 0o777)
      unsafe chmod(folder(), 0o666)
      #expect(seteuid(65_534) == 0)
      let client = try await TCPConnection.connect(to: .unix(path: folder()))
      _ = seteuid(0)
      let answer = try? await client.read(timeout: .seconds(10))
      #expect((answer ?? nil) == nil)
      serving.cancel()
      try await serving.value
    }
  }

  @Test func `A client that reads nothing holds up no other client`() async throws {
    let folder = try SocketFolder()
    let pairs = (0..<2000).map { _ in InMemoryConnection.pair() }
    try await serving(folder()) {
      var configuration = TCPConnection.Configuration()
      configuration.prepare = { try $0.set(.receiveBufferSize, to: 4096) }
      let slow = try await TCPConnection.connect(to: .unix(path: folder()), configuration: configuration)
      let lines = try await ask(folder())
      #expect(lines.count > 4000)
      await slow.abort()
    }
    withExtendedLifetime(pairs) {}
  }

  @Test(arguments: [(59, true), (61, false)])
  func `A client has a minute for the whole report`(seconds: Int, isComplete: Bool) async throws {
    let answer = Locked<String>("")
    try await simulated { simulation in
      try await simulation.host("server").run {
        let pairs = (0..<2000).map { _ in InMemoryConnection.pair() }
        let serving = Task { try await Inspection.serve(on: .unix(path: "/inspect")) }
        try await Task.sleep(for: .seconds(1))
        let client = try await TCPConnection.connect(to: .unix(path: "/inspect"))
        try await Task.sleep(for: .seconds(seconds))
        let bytes =
          isComplete
          ? try await client.readToEnd(maximumLength: 1 << 24)
          : (try? await client.readToEnd(maximumLength: 1 << 24)) ?? []
        answer.withLock { $0 = String(decoding: bytes, as: UTF8.self) }
        serving.cancel()
        try await serving.value
        withExtendedLifetime(pairs) {}
      }
    }
    #expect(answer.withLock { $0 }.contains("\"type\":\"end\"") == isComplete, "\(answer.withLock { $0.prefix(2000) })")
  }

  @Test func `Serving that is cancelled at any moment ends, and leaves no file`() async throws {
    let folder = try SocketFolder()
    let pairs = (0..<100).map { _ in InMemoryConnection.pair() }
    for round in 0..<60 {
      let serving = Task { try await Inspection.serve(on: .unix(path: folder())) }
      let asking = Task {
        let client = try await TCPConnection.connect(to: .unix(path: folder()), timeout: .within(.seconds(10)))
        return try await client.readToEnd(maximumLength: 1 << 24, timeout: .seconds(10)).count
      }
      for _ in 0..<round * 5 { await Task.yield() }
      serving.cancel()
      _ = await serving.result
      _ = await asking.result
      #expect(FileFacts(folder()) == nil)
    }
    withExtendedLifetime(pairs) {}
  }

  @Test func `A server that drains is shown with the connection that it waits for`() async throws {
    let label = "drained \(UInt64.random(in: 0 ... .max))"
    let listener = try TCPListener.bind(
      to: .host("127.0.0.1", port: 0), configuration: .with { $0.label = label })
    let serving = Task {
      try await listener.serve { connection in _ = try await connection.read(exactly: 1, timeout: .seconds(500)) }
    }
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    try await eventually("the handler runs") {
      number(try line(labelled: label, in: try await report())["handlers"]) == 1
    }
    await listener.drain(within: .seconds(1000))
    let lines = try await report()
    #expect(try line(labelled: label, in: lines)["state"] as? String == "draining")
    let stuck = lines.first { $0["remote"] as? String == client.localAddress.map { "\($0)" } }
    let operation = (stuck?["operations"] as? [[String: Any]])?.first
    #expect(operation?["what"] as? String == "read exactly 1 bytes" && number(operation?["left"]) > 400)
    await client.close()
    _ = try await serving.value
  }

  @Test func `Ten thousand connections are listed once each while others go on`() async throws {
    let pairs = (0..<5000).map { _ in InMemoryConnection.pair() }
    let (near, far) = InMemoryConnection.pair()
    let echo = Task {
      while let bytes = try await far.read() { try await far.write(bytes) }
    }
    let asking = Task { try await Inspection.report() }
    var rounds = 0
    repeat {
      try await near.write([1])
      _ = try await near.read(exactly: 1, timeout: .seconds(10))
      rounds += 1
    } while rounds < 100
    let lines = try parsed(try await asking.value)
    let expected = Set(pairs.flatMap { [$0.0.id, $0.1.id] }.map { Double($0) })
    let found = lines.filter { $0["type"] as? String == "connection" }.map { number($0["id"]) }.filter {
      expected.contains($0)
    }
    #expect(found.count == expected.count && Set(found) == expected)
    await near.close()
    _ = try? await echo.value
    withExtendedLifetime(pairs) {}
  }

  @Test func `Sockets that come and go meanwhile do no harm`() async throws {
    let churn = Task {
      while !Task.isCancelled {
        let (near, far) = InMemoryConnection.pair()
        try await near.write([1])
        await near.close()
        await far.abort()
      }
    }
    for _ in 0..<50 {
      let lines = try await report()
      #expect(lines.last?["type"] as? String == "end")
    }
    churn.cancel()
    _ = try? await churn.value
  }

  @Test func `A report that is cancelled at any moment ends`() async throws {
    let pairs = (0..<100).map { _ in InMemoryConnection.pair() }
    for round in 0..<100 {
      let asking = Task { try await Inspection.report() }
      for _ in 0..<round { await Task.yield() }
      asking.cancel()
      switch await asking.result {
      case .success(let lines): #expect(lines.last?.contains("\"end\"") == true)
      case .failure(let error): #expect(error is CancellationError)
      }
    }
    withExtendedLifetime(pairs) {}
  }

  @Test func `No byte that a program moves is shown`() async throws {
    let (near, far) = InMemoryConnection.pair()
    let secret = "secret-\(UInt64.random(in: 0 ... .max))"
    try await far.write(utf8: secret)
    let reading = Task { try? await near.read(until: Delimiter(stringLiteral: secret + "!")) }
    try await near.hasBuffered(secret.utf8.count)
    let lines = try await Inspection.report()
    #expect(!lines.contains { $0.contains(secret) })
    reading.cancel()
    _ = await reading.value
    await near.abort()
    await far.abort()
  }

  @Test func `A simulated host sees its own reactors, and each run says the same`() async throws {
    func run() async throws -> [String] {
      let outside = InMemoryConnection.pair()
      outside.0.label = "outside"
      let lines = Locked<[String]>([])
      try await simulated { simulation in
        let other = try await simulation.host("other").run { try UDPEndpoint.bind(to: .port(1)) }
        let found = try await simulation.host("server").run {
          let listener = try TCPListener.bind(to: .port(80))
          let accepting = Task { try await listener.accept() }
          try await Task.sleep(for: .seconds(3))
          let lines = try await Inspection.report()
          await listener.close()
          _ = try? await accepting.value
          return lines
        }
        await other.close()
        lines.withLock { $0 = found }
      }
      withExtendedLifetime(outside) {}
      return lines.withLock { $0 }
    }
    let first = try await run()
    #expect(first == (try await run()))
    #expect(
      first.count { $0.contains("\"listener\"") } == 1 && first.count { $0.contains("\"reactor\",\"reactor\"") } == 1)
    #expect(first.contains { $0.contains("\"what\":\"accept\",\"age\":3") })
    #expect(!first.contains { $0.contains("outside") || $0.contains("endpoint") })
  }
}
