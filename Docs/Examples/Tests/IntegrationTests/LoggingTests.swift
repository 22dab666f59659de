import ActorSockets
import ActorSocketsLogging
import ActorSocketsObservers
import ActorSocketsTLS
import Glibc
import ExampleSupport
import InMemoryLogging
import Logging
import Synchronization
import Testing

@Suite struct LoggingTests {
  private func makeLogger(_ level: Logger.Level = .trace) -> (InMemoryLogHandler, Logger) {
    var handler = InMemoryLogHandler()
    handler.logLevel = level
    return (handler, Logger(label: "sockets") { [handler] _ in handler })
  }

  @Test func `A conversation is logged with its addresses`() async throws {
    let (handler, logger) = makeLogger()
    let observer = LoggingObserver(logger, lagThreshold: .seconds(60))
    let talk = try await IntegrationTests.talk(observedBy: observer)
    await observer.flush()
    func lines(_ id: UInt64) -> [InMemoryLogHandler.Entry] {
      handler.entries.filter { $0.metadata["connection.id"] == "\(id)" }
    }
    #expect(lines(talk.client).map(\.message.description) == ["connected", "ended: closed by this side"])
    #expect(lines(talk.server).map(\.message.description) == ["accepted", "ended: closed after the peer had finished"])
    #expect(handler.entries.allSatisfy { $0.level == .debug && $0.error == nil })
    let end = try #require(lines(talk.client).last).metadata
    #expect(end["connection.label"] == "client")
    #expect(end["network.peer.address"] == "127.0.0.1" && end["network.peer.port"] == "\(talk.port)")
    #expect(end["network.local.address"] == "127.0.0.1" && end["network.local.port"] != nil)
    #expect(end["bytes.received"] == "4" && end["bytes.sent"] == "6" && end["bytes.unsent"] == nil)
    #expect(end["suppressed"] == nil)
  }

  @Test func `What goes wrong has its level and its error`() async throws {
    let (handler, logger) = makeLogger()
    let observer = LoggingObserver(logger, lagThreshold: .seconds(60))
    let reset = try await beReset(observedBy: observer)
    try await beRefused(observedBy: observer, tries: 2)
    try await fail(with: Mishap(), observedBy: observer)
    try await fail(with: SocketError(.endOfStream, operation: "read"), observedBy: observer)
    try await fail(with: TLSError(.truncated), observedBy: observer)
    try await encrypt(observedBy: observer, trusting: false)
    await observer.flush()
    func lines(_ level: Logger.Level) -> [String] {
      handler.entries.filter { $0.level == level }.map(\.message.description)
    }
    #expect(lines(.error) == ["the handler failed"])
    #expect(handler.entries.first { $0.level == .error }?.error is Mishap)
    #expect(lines(.notice).contains("connecting failed"))
    #expect(lines(.notice).contains("the TLS handshake failed"))
    #expect(lines(.info).count { $0 == "the handler failed" } == 2)
    #expect(lines(.info).contains { $0.hasPrefix("connecting failed, next try in ") })
    let end = handler.entries.first {
      $0.message == "ended: reset by the peer" && $0.metadata["connection.id"] == "\(reset.client)"
    }
    #expect(end?.level == .info)
    let refused = handler.entries.first { $0.message == "connecting failed" }
    #expect((refused?.error as? SocketError)?.code == .connectionRefused)
  }

  @Test func `Drops and lag are warnings`() async throws {
    let (handler, logger) = makeLogger(.warning)
    let witness = Witness()
    _ = try await talk(observedBy: witness)
    let observer = LoggingObserver(logger)
    observer.datagramsDropped(3, at: try #require(witness.lastConnection))
    observer.lagged(.seconds(2))
    await observer.flush()
    #expect(handler.entries.map(\.level) == [.warning, .warning])
    #expect(handler.entries.first?.message.description.hasPrefix("3 datagrams were dropped") == true)
    #expect(handler.entries.last?.message.description == "the reactor was held up for 2.0 seconds")
  }

  @Test func `Events below the logger's level are not logged`() async throws {
    let (handler, logger) = makeLogger(.info)
    let observer = LoggingObserver(logger, lagThreshold: .seconds(60))
    _ = try await talk(observedBy: observer)
    await observer.flush()
    #expect(handler.entries.isEmpty)
  }

  @Test func `In a flood, lines are left out and counted, but warnings are not`() async throws {
    let (handler, logger) = makeLogger()
    let witness = Witness()
    _ = try await talk(observedBy: witness)
    let connection = try #require(witness.lastConnection)
    let clock = TestClock()
    let observer = LoggingObserver(logger, linesPerSecond: 3, lagThreshold: .seconds(60)) { clock.now }
    for _ in 0..<10 { observer.accepted(connection) }
    observer.lagged(.seconds(1))
    await observer.flush()
    #expect(handler.entries.map(\.level) == [.debug, .debug, .debug, .warning])
    clock.advanceOneSecond()
    observer.accepted(connection)
    observer.accepted(connection)
    await observer.flush()
    #expect(handler.entries.dropFirst(4).map { $0.metadata["suppressed"] } == ["7", nil])
  }

  @Test func `A log handler that blocks holds up neither the reactor nor memory`() async throws {
    let handler = BlockedHandler()
    let logger = Logger(label: "sockets") { _ in handler }
    let witness = Witness()
    _ = try await talk(observedBy: witness)
    let connection = try #require(witness.lastConnection)
    let clock = TestClock()
    let observer = LoggingObserver(logger, linesPerSecond: 5, lagThreshold: .seconds(60)) {
      clock.advanceOneSecond()
      return clock.now
    }
    for _ in 0..<100 { observer.accepted(connection) }
    // The calls above have returned although the handler has not.
    handler.open()
    await observer.flush()
    observer.accepted(connection)
    await observer.flush()
    let counts = handler.suppressed
    // The queue has room for ten, and the writer may hold one.
    #expect((11...12).contains(counts.count))
    #expect(counts.reduce(counts.count, +) == 101)
  }
}

/// A clock that goes on when it is told to.
private final class TestClock: Sendable {
  private let time = Mutex(ContinuousClock.now)

  var now: ContinuousClock.Instant { time.withLock { $0 } }
  func advanceOneSecond() { time.withLock { $0 += .seconds(1) } }
}

/// A log handler whose first line waits until it is opened.
private final class BlockedHandler: LogHandler {
  private let counts = Mutex<[Int]>([])
  private let isOpen = Atomic(false)
  var metadata: Logger.Metadata {
    get { [:] }
    set {}
  }
  var logLevel: Logger.Level {
    get { .trace }
    set {}
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { nil }
    set {}
  }

  /// The numbers of lines that each line says were left out.
  var suppressed: [Int] { counts.withLock { $0 } }

  func open() { isOpen.store(true, ordering: .releasing) }

  func log(event: LogEvent) {
    // It blocks its thread, which is what is tested.
    while !isOpen.load(ordering: .acquiring) { sched_yield() }
    let text = event.metadata?["suppressed"]?.description
    counts.withLock { $0.append(text.flatMap { Int($0) } ?? 0) }
  }
}
