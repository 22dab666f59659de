import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct RetryTests {
  private final class Observer: ReactorObserver {
    let retries = Notes<(SocketError, Duration)>()
    let ends = Notes<String>()

    func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
      retries.add((error, delay))
    }
    func connected(_ connection: ObservedConnection) { ends.add("connected") }
    func connectFailed(_ connection: ObservedConnection, _ error: SocketError) { ends.add("failed \(error.code)") }
  }

  private struct Scene {
    let time = ManualTime()
    let observer = Observer()
    var configuration = TCPConnection.Configuration()

    init(_ change: (inout TCPConnection.Retry) -> Void = { _ in }) {
      var retry = TCPConnection.Retry()
      change(&retry)
      configuration.retry = retry
      time.reactor.observer = observer
    }

    func connection(to endpoint: Endpoint) -> TCPConnection {
      TCPConnection(to: endpoint, configuration: configuration, reactor: time.reactor)
    }

    /// Waits until a number of tries have failed, without moving the time.
    func tries(_ count: Int) async throws {
      try await eventually("\(count) tries have failed") { observer.retries.all.count >= count }
    }
  }

  // MARK: The schedule

  @Test func `The longest delay doubles up to the maximum`() {
    var retry = TCPConnection.Retry()
    retry.maximumTries = .max
    var schedule = RetrySchedule(retry)
    var random = SeededRandom(seed: 1)
    for milliseconds in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
      #expect(schedule.longestDelay == milliseconds * 1_000_000)
      _ = schedule.delay(after: SocketError(.timedOut, operation: "connect"), &random)
    }
    for _ in 0..<200 { _ = schedule.delay(after: SocketError(.timedOut, operation: "connect"), &random) }
    #expect(schedule.longestDelay == 10_000_000_000)
    retry.maximumDelay = .seconds(Int64.max)
    retry.firstDelay = .seconds(Int64.max)
    #expect(RetrySchedule(retry).longestDelay == .max)
  }

  @Test func `Delays are spread over the whole range`() {
    var random = SeededRandom(seed: 2)
    let delays = (0..<1000).map { _ in
      var schedule = RetrySchedule(TCPConnection.Retry())
      return schedule.delay(after: SocketError(.timedOut, operation: "connect"), &random) ?? -1
    }
    #expect(delays.allSatisfy { (0...100_000_000).contains($0) })
    #expect(delays.count { $0 < 20_000_000 } > 100 && delays.count { $0 > 80_000_000 } > 100)
  }

  @Test(arguments: [
    SocketError.Code.invalidArgument, .rejected, .permissionDenied, .interfaceNotFound, .reactorShutDown,
    .proxyAuthenticationFailed,
  ])
  func `A failure that would be repeated is final`(code: SocketError.Code) {
    var schedule = RetrySchedule(TCPConnection.Retry())
    var random = SeededRandom(seed: 3)
    #expect(schedule.delay(after: SocketError(code, operation: "connect"), &random) == nil)
    #expect(schedule.tries == 1)
  }

  // MARK: Connections

  @Test func `A server that comes up later is reached, and what was enqueued arrives`() async throws {
    let scene = Scene()
    let address = try unusedAddress()
    let connection = scene.connection(to: .address(address))
    async let writing: Void = connection.write(utf8: "hello")
    try await scene.tries(1)
    await scene.time.advance(by: .milliseconds(100))
    try await scene.tries(2)
    let listener = try RawSocket.listening(on: address)
    await scene.time.advance(by: .milliseconds(200))
    let peer = try await listener.accept()
    #expect(try await peer.receive(exactly: 5) == Array("hello".utf8))
    try await writing
    #expect(scene.observer.retries.all.map(\.0.code) == [.connectionRefused, .connectionRefused])
    #expect(
      scene.observer.retries.all[0].1 <= .milliseconds(100) && scene.observer.retries.all[1].1 <= .milliseconds(200))
    #expect(scene.observer.ends.all == ["connected"])
    peer.close()
    await connection.close()
  }

  @Test func `The last failure says how many tries there were`() async throws {
    let scene = Scene { $0.maximumTries = 3 }
    let connection = scene.connection(to: .address(try unusedAddress()))
    for count in 1...2 {
      try await scene.tries(count)
      await scene.time.advance(by: .milliseconds(200))
    }
    await expectError(.connectionRefused, saying: "tried 3 times") { _ = try await connection.read(exactly: 1) }
    #expect(scene.observer.ends.all == ["failed connectionRefused"] && scene.observer.retries.all.count == 2)
  }

  @Test func `The connect timeout limits all tries and delays together`() async throws {
    var scene = Scene {
      $0.maximumTries = 1000
      $0.firstDelay = .seconds(1)
    }
    scene.configuration.connectTimeout = .seconds(3)
    let connection = scene.connection(to: .address(try unusedAddress()))
    try await scene.tries(1)
    try await eventually("connecting has failed") {
      await scene.time.advance(by: .milliseconds(100))
      return await connection.state == .closed
    }
    let error = await expectError(.timedOut, saying: "within 3 s") { _ = try await connection.read(exactly: 1) }
    #expect(error.causes.map(\.code) == [.connectionRefused])
    #expect(error.description.contains("the last failure: connect"))
    guard case .timedOut = try await connection.closed.reason else { Issue.record("not timed out"); return }
  }

  @Test func `A try that gets no answer is given up after its own time`() async throws {
    let hole = try BlackHole()
    let listener = try RawSocket.listening()
    var scene = Scene { $0.tryTimeout = .seconds(2) }
    let addresses = Notes<SocketAddress>()
    scene.configuration.connectTimeout = .seconds(60)
    struct Changing: Resolver {
      let first: SocketAddress
      let later: SocketAddress
      let asked: Notes<SocketAddress>

      @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
        if family == .ipv6 { throw SocketError(.hostNotFound, operation: "look-up") }
        let answer = asked.all.isEmpty ? first : later
        asked.add(answer)
        return [answer]
      }
    }
    // The resolver gives the address without the port, so both must listen on the same one.
    let port = try #require(hole.address.port)
    let other = try? RawSocket.listening(on: .ipv4(IPv4Address(127, 0, 0, 2), port: port))
    let second = try #require(other, "the port is free at another loopback address")
    scene.configuration.resolver = Changing(first: hole.address, later: try second.address, asked: addresses)
    let connection = scene.connection(to: .host("changing.test", port: port))
    try await eventually("the first try is given up") {
      await scene.time.advance(by: .milliseconds(100))
      return !scene.observer.retries.all.isEmpty
    }
    #expect(
      scene.observer.retries.all[0].0.code == .timedOut && "\(scene.observer.retries.all[0].0)".contains("within 2 s")
    )
    await scene.time.advance(by: .milliseconds(100))
    let peer = try await second.accept()
    try await connection.write([1])
    #expect(try await peer.receive(exactly: 1) == [1])
    #expect(addresses.all.count == 2)
    peer.close()
    await connection.close()
    withExtendedLifetime((hole, listener)) {}
  }

  @Test func `A proxy that fails is tried again, and its descriptors are closed`() async throws {
    var scene = Scene()
    let listener = try RawSocket.listening()
    scene.configuration.proxy = .http(.address(try listener.address))
    let before = try await settledDescriptors()
    let connection = scene.connection(to: .host("example.test", port: 1))
    for answer in ["HTTP/1.1 503 Busy\r\n\r\n", "nonsense\r\n", "HTTP/1.1 2"] {
      let count = scene.observer.retries.all.count
      let peer = try await listener.accept()
      try peer.send(answer)
      peer.close()
      try await scene.tries(count + 1)
      await scene.time.advance(by: .seconds(1))
    }
    let peer = try await listener.accept()
    try peer.send("HTTP/1.1 200 OK\r\n\r\nhello")
    #expect(try await connection.read(exactly: 5) == Array("hello".utf8))
    #expect(scene.observer.retries.all.map(\.0.code) == [.proxyRefused, .proxyFailed, .proxyFailed])
    try await eventually("only this connection's descriptors are open") { openDescriptors() <= before + 2 }
    peer.close()
    await connection.close()
  }

  @Test func `A connection that the program refuses is not tried again`() async throws {
    struct Refusal: Error {}
    var scene = Scene()
    scene.configuration.prepare = { _ in throw Refusal() }
    await #expect(throws: Refusal.self) {
      try await TCPConnection.connect(
        to: .host("127.0.0.1", port: 1), configuration: scene.configuration, reactor: scene.time.reactor)
    }
    await expectError(.invalidArgument) { _ = try await scene.connection(to: .host("127.0.0.1", port: 0)).read() }
    // Also if the program's error looks like one that passes.
    scene.configuration.prepare = { _ in throw SocketError(.timedOut, operation: "mine") }
    await expectError(.timedOut) { _ = try await scene.connection(to: .host("127.0.0.1", port: 1)).read() }
    #expect(scene.observer.retries.all.isEmpty)
  }

  @Test func `Cancelling and closing end the tries`() async throws {
    let scene = Scene { $0.maximumTries = 1000 }
    let endpoint = Endpoint.address(try unusedAddress())
    let task = Task {
      try await TCPConnection.connect(to: endpoint, configuration: scene.configuration, reactor: scene.time.reactor)
    }
    try await scene.tries(1)
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    let connection = scene.connection(to: endpoint)
    try await scene.tries(2)
    await connection.close()
    await expectError(.closed) { _ = try await connection.read() }
    await scene.time.advance(by: .seconds(100))
    #expect(scene.observer.retries.all.count == 2)
  }
}
