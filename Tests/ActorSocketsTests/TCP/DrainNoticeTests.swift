import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// How a server stops that gives a notice before its drain, and how one stops whose listener ends.
@Suite(.endsInTime) struct DrainNoticeTests {
  private static let notice = Drain.within(.seconds(100), notice: .seconds(10))

  /// A handler that ends when it is cancelled.
  @Sendable private static func hang(_ connection: any ByteStream) async throws {
    await AsyncStream<Void>.makeStream().stream.first { true }
    try Task.checkCancellation()
  }

  private static func beginNotice(_ server: Served) async throws {
    server.serving.cancel()
    try await eventually("the notice has begun") { await server.listener.isNoticed }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A call that waits for the drain returns when the notice begins`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, drain: Self.notice) { connection in
      try await connection.waitUntilDraining()
      #expect(connection.isDraining)
      try await connection.write(utf8: "bye\n")
      try await Served.answerLines(connection)
    }
    let client = try await server.client()
    try await eventually("the handler waits") { await server.listener.waitsForDrain == 1 }
    server.serving.cancel()
    #expect(try await client.receive(exactly: 4) == Array("bye\n".utf8))
    // The server serves as before.
    try await client.expectEcho()
    let late = try await server.client()
    #expect(try await late.receive(exactly: 4) == Array("bye\n".utf8))
    await server.listener.drain(within: .seconds(50))
    for client in [client, late] { await client.close() }
    #expect(try await server.serving.value.finished == 2)
  }

  @Test(arguments: ListenerKind.allCases)
  func `A drain that is requested during the notice does not put off the end`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, drain: Self.notice, Self.hang)
    let client = try await server.client()
    try await Self.beginNotice(server)
    await server.listener.drain(within: .seconds(1_000))
    await server.time.advance(by: .seconds(110) - .nanoseconds(1))
    #expect(await server.listener.isDraining)
    await server.time.advance(by: .nanoseconds(1))
    #expect(try await server.serving.value.aborted == 1)
    await client.expectReset()
  }

  @Test(arguments: ListenerKind.allCases)
  func `Closing the listener during a notice begins the drain`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, drain: Self.notice, Served.answerLines)
    let client = try await server.client()
    try await client.expectEcho()
    try await Self.beginNotice(server)
    await server.listener.close()
    try await client.expectEnd()
    #expect(try await server.serving.value.finished == 1)
  }

  @Test(arguments: ListenerKind.allCases, [1, 2])
  func `Closing the listener during a notice gives handlers the time of the drain`(
    kind: ListenerKind, limit: Int
  ) async throws {
    let server = try Served(kind.listener, limits: .init(connections: limit), drain: Self.notice, Self.hang)
    let client = try await server.client()
    try await Self.beginNotice(server)
    await server.listener.close()
    await server.time.advance(by: .seconds(100) - .nanoseconds(1))
    #expect(await server.listener.isDraining)
    await server.time.advance(by: .nanoseconds(1))
    #expect(try await server.serving.value.aborted == 1)
    await client.expectReset()
  }

  @Test(arguments: ListenerKind.allCases, [1, 2])
  func `A listener that is closed drains, also while its limit is full`(kind: ListenerKind, limit: Int) async throws {
    let server = try Served(kind.listener, limits: .init(connections: limit), drain: Self.notice, Self.hang)
    let client = try await server.client()
    await server.listener.close()
    try await eventually("the server drains") { await server.listener.isDraining }
    await server.time.advance(by: .seconds(100))
    await expectError(.closed) { _ = try await server.serving.value }
    await client.expectReset()
  }

  /// What the server does when its reactor shuts down.
  enum Moment: CaseIterable {
    case serving, noticed, draining
  }

  @Test(arguments: ListenerKind.allCases, Moment.allCases)
  func `A reactor that shuts down ends the server, also while its limit is full`(
    kind: ListenerKind, moment: Moment
  ) async throws {
    for limit in [1, 2] {
      let server = try Served(kind.listener, limits: .init(connections: limit), drain: Self.notice, Self.hang)
      let client = try await server.client()
      if moment != .serving { try await Self.beginNotice(server) }
      if moment == .draining { await server.listener.drain(within: .seconds(50)) }
      server.time.reactor.shutdown()
      if moment == .draining {
        #expect(try await server.serving.value.aborted == 1)
      } else {
        await expectError(.reactorShutDown) { _ = try await server.serving.value }
      }
      await client.close()
    }
  }
}

extension StreamListener {
  fileprivate var isNoticed: Bool {
    (self as? TCPListener)?.assumeIsolated { $0.server.isNoticed }
      ?? (self as? InMemoryListener)?.assumeIsolated { $0.server.isNoticed } ?? false
  }

  fileprivate var isDraining: Bool {
    (self as? TCPListener)?.assumeIsolated { $0.server.isDraining }
      ?? (self as? InMemoryListener)?.assumeIsolated { $0.server.isDraining } ?? false
  }

  /// The number of calls that wait for the drain on all connections.
  fileprivate var waitsForDrain: Int {
    func count(_ connections: [any ByteStream]) -> Int {
      connections.count { $0.assumeIsolated { $0.core.waiters?.draining.isEmpty == false } }
    }
    return (self as? TCPListener)?.assumeIsolated { count($0.server.active.valuesInOrder) }
      ?? (self as? InMemoryListener)?.assumeIsolated { count($0.server.active.valuesInOrder) } ?? 0
  }
}
