import ActorSocketsTesting
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct AcceptTimeoutTests {
  @Test(arguments: [false, true])
  func `Accepting times out at its time and not before, and the next call gets the connection`(
    isDeadline: Bool
  ) async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let timeout = isDeadline ? Timeout.until(time.now + .seconds(5)) : Timeout(.seconds(5))
    let isOver = Gate()
    let accepting = Task.immediate {
      defer { isOver.open() }
      return try await listener.accept(timeout: timeout)
    }
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(!isOver.isOpen)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { _ = try await accepting.value }
    let reason = isDeadline ? "the deadline has passed" : "timed out after 5 s"
    #expect("\(error)" == "accept on \(listener.address): \(reason)")
    async let accepted = listener.accept(timeout: .seconds(1))
    let client = try await TCPConnection.connect(to: listener.endpoint)
    #expect(try await accepted.remoteAddress == client.localAddress)
    // The timer of a call that has returned does nothing.
    #expect(await listener.timerCount == 0)
    await time.advance(by: .seconds(10))
    await client.close()
  }

  @Test func `Without time, a connection that already waits is accepted`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
    let client = try await TCPConnection.connect(to: listener.endpoint)
    #expect(try await listener.accept(timeout: .zero).remoteAddress == client.localAddress)
    await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
  }

  @Test func `Without time, a connection is accepted although no event has announced it yet`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
    let (client, accepting) = try await time.reactor.whileBlocked {
      (
        try RawSocket.connected(to: listener.address),
        Task.immediate { try await listener.accept(timeout: .zero) }
      )
    }
    _ = try await accepting.value
    client.close()
  }

  @Test func `Without time, all connections that wait are accepted, more than the budget of one iteration`()
    async throws
  {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    // 32 are the budget of an iteration. All these calls are made in one.
    let (clients, accepting) = try await time.reactor.whileBlocked {
      let clients = try (0..<40).map { _ in try RawSocket.connected(to: listener.address) }
      return (clients, (0..<40).map { _ in Task.immediate { try await listener.accept(timeout: .zero) } })
    }
    for task in accepting { _ = try await task.value }
    await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
    for client in clients { client.close() }
  }

  @Test func `A closure extends the time, and cancellation ends it`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let extended = Task.immediate {
      try await listener.accept(
        timeout: .after(.seconds(1)) { elapsed, _ in elapsed < .seconds(2) ? .seconds(1) : nil })
    }
    let cancelled = Task.immediate { try await listener.accept(timeout: .seconds(10)) }
    await time.advance(by: .seconds(1))
    cancelled.cancel()
    await expectCancellation { _ = try await cancelled.value }
    await time.advance(by: .seconds(1))
    let error = await expectError(.timedOut) { _ = try await extended.value }
    #expect("\(error)".hasSuffix("timed out after 2 s"))
    await time.advance(by: .seconds(20))
  }

  @Test func `Each connection of a loop has a timeout`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let count = Notes<Int>()
    let isOver = Gate()
    let accepting = Task.immediate {
      defer { isOver.open() }
      for try await _ in listener.connections(timeout: .seconds(5)) { count.add(1) }
    }
    for number in 1...2 {
      await time.advance(by: .seconds(4))
      _ = try await TCPConnection.connect(to: listener.endpoint)
      try await eventually("the connection is accepted") { count.all.count == number }
    }
    // The loop may not have called again yet.
    try await eventually("the loop times out") {
      await time.advance(by: .seconds(5))
      return isOver.isOpen
    }
    await expectError(.timedOut) { try await accepting.value }
  }

  @Test func `Each datagram of a loop has a timeout`() async throws {
    let time = ManualTime()
    let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), reactor: time.reactor)
    let address = try #require(endpoint.localAddress)
    let count = Notes<Int>()
    let receiving = Task.immediate { for try await _ in endpoint.datagrams(timeout: .seconds(5)) { count.add(1) } }
    let sender = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    for number in 1...2 {
      try await eventually("the loop waits") { await endpoint.metrics.pendingReceives == 1 }
      await time.advance(by: .seconds(4))
      try await sender.send([1], to: address)
      try await eventually("the datagram is received") { count.all.count == number }
    }
    try await eventually("the loop waits") { await endpoint.metrics.pendingReceives == 1 }
    await time.advance(by: .seconds(5))
    let error = await expectError(.timedOut) { try await receiving.value }
    #expect("\(error)" == "receive: timed out after 5 s")
    try await sender.send([2], to: address)
    for try await datagram in endpoint.datagrams(timeout: .seconds(5)) {
      #expect(datagram.bytes == [2])
      break
    }
  }

  @Test func `A datagram whose deadline has passed is not sent, and the error names where it should have gone`()
    async throws
  {
    let sender = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let receiver = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let address = try #require(receiver.localAddress)
    let past = Timeout.until(.now - .seconds(1))
    let error = await expectError(.timedOut) { try await sender.send([1], to: address, timeout: past) }
    #expect("\(error)" == "send to \(address): the deadline has passed")
    await expectError(.timedOut) {
      try await sender.send([Datagram([1], to: address), Datagram([1], to: address)], timeout: past)
    }
    await expectError(.timedOut) { try await sender.enqueueSend(Datagram([1], to: address), timeout: past).value }
    try await sender.send([2], to: address, timeout: .until(.now + .seconds(1_000)))
    #expect(try await receiver.receive().bytes == [2])
  }
}

extension TCPListener {
  fileprivate var timerCount: Int { timers.count }
}
