import ActorSockets
import EpollReactor
import TestSupport
import Testing

/// Operations that are enqueued while the reactor does other work. A write budget counts them from the call on.
@Suite(.conformance, .endsInTime) struct SubmissionTests {
  /// Runs `body` while the reactor does not run. In a simulation it never does while a task computes.
  private func ahead<Value: Sendable>(of reactor: Reactor, _ body: @Sendable () -> Value) async -> Value {
    if conformanceIsSimulated { return body() }
    return await reactor.whileBlocked { body() }
  }

  private static let budget = 64 << 10

  @Test(arguments: Transport.allCases)
  func `Writes that are enqueued ahead of a busy reactor keep to the budget`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeBudget = Self.budget }
    let client = pair.client
    for size in [1_000, 1, 0] {
      let handles = await ahead(of: client.executor.reactor) {
        let handles = (0..<1_000).map { client.enqueueWrite(pattern(size, from: $0)) }
        #expect(client.executor.submissions.waiting <= Self.budget)
        return handles
      }
      let accepted = Self.budget / max(size, SubmissionLimit.leastCharge)
      for handle in handles.prefix(accepted) { try await handle.value }
      for handle in handles.dropFirst(accepted) {
        let error = await expectError(.limitExceeded) { try await handle.value }
        #expect(error.description.contains("the budget is \(Self.budget)"))
      }
      let expected = (0..<accepted).flatMap { pattern(size, from: $0) }
      #expect(try await pair.server.read(exactly: expected.count) == expected)
      #expect(client.executor.submissions.waiting == 0)
    }
  }

  @Test(arguments: Transport.allCases)
  func `A write of any size may be the only one ahead of the reactor`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeBudget = 1_000 }
    let client = pair.client
    let (large, refused) = await ahead(of: client.executor.reactor) {
      (client.enqueueWrite(pattern(tooMuch)), client.enqueueWrite([1]))
    }
    await expectError(.limitExceeded) { try await refused.value }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await large.value
  }

  @Test(arguments: Transport.allCases)
  func `A connection that aborts slow peers ends when its budget is used up ahead of the reactor`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair {
      $0.writeBudget = Self.budget
      $0.onWriteOverflow = .abort
    }
    let client = pair.client
    let reading = client.enqueueRead(.line())
    let handles = await ahead(of: client.executor.reactor) {
      (0..<1_000).map { client.enqueueWrite(pattern(1_000, from: $0)) }
    }
    for handle in handles.dropFirst(Self.budget / 1_000) {
      await expectError(.peerTooSlow) { try await handle.value }
    }
    await expectError(.peerTooSlow) { _ = try await reading.value }
    #expect(try await "\(client.closed.reason)" == "peerTooSlow")
    // No message is missing in the middle.
    var received: [UInt8] = []
    while let more = try? await pair.server.read() { received += more }
    let all = (0..<Self.budget / 1_000).flatMap { pattern(1_000, from: $0) }
    #expect(received == Array(all.prefix(received.count)))
  }

  @Test(.inRealTime)
  func `Members of a chat that never read are disconnected, and take no more than the budget`() async throws {
    let reactor = Reactor()
    var configuration = TCPConnection.Configuration()
    configuration.writeBudget = 256 << 10
    configuration.onWriteOverflow = .abort
    let pairs = try (0..<100).map { _ in try RawSocket.unixPair() }
    let members = try pairs.map {
      try TCPConnection.adopt(fileDescriptor: $0.0.release(), configuration: configuration, reactor: reactor)
    }
    let line = pattern(1_000)
    await reactor.whileBlocked {
      for _ in 0..<1_000 { for member in members { _ = member.enqueueWrite(line) } }
      #expect(members.allSatisfy { $0.executor.submissions.waiting <= 256 << 10 })
    }
    for member in members {
      #expect(try await "\(member.closed.reason)" == "peerTooSlow")
    }
    for pair in pairs { pair.1.close() }
  }

  @Test(.inRealTime, arguments: [1_000, 0])
  func `Datagrams that are enqueued ahead of a busy reactor keep to the budget`(size: Int) async throws {
    let reactor = Reactor()
    let server = try DatagramTransport.ipv4.bind(reactor: reactor)
    let client = try DatagramTransport.ipv4.bind(on: reactor) { $0.sendBudget = Self.budget }
    let address = server.localAddresses[0]
    let handles = await reactor.whileBlocked {
      let handles = (0..<1_000).map { _ in client.enqueueSend(Datagram(pattern(size), to: address)) }
      #expect(client.executor.submissions.waiting <= Self.budget)
      return handles
    }
    let accepted = Self.budget / max(size, SubmissionLimit.leastCharge)
    for handle in handles.prefix(accepted) { try await handle.value }
    for handle in handles.dropFirst(accepted) { await expectError(.limitExceeded) { try await handle.value } }
    try await client.enqueueSend(Datagram([1], to: address)).value
  }
}
