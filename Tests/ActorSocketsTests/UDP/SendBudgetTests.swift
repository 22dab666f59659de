import TestSupport
import Testing

@testable import ActorSockets

/// The rest that a pump of sends leaves when its budget is used up.
@Suite(.conformance, .endsInTime) struct SendBudgetTests {
  @Test(arguments: [511, 512, 513])
  func `A batch that the kernel has taken is over at once, also one of exactly a budget`(count: Int) async throws {
    let (sender, receiver, address) = try DatagramTransport.ipv4.pair()
    let batch = Array(repeating: Datagram([1], to: address), count: count)
    let (isOver, isQueued) = await sender.startSending(batch)
    #expect(isOver == (count <= 512))
    #expect(isQueued == (count > 512))
    try await sender.hasPending(sends: 0)
    #expect(await sender.metrics.datagramsSent == UInt64(count))
    await receiver.close()
  }

  @Test(.inRealTime, arguments: [511, 512, 513, 2000])
  func `A batch without time to wait is sent whole if there is room, however many budgets it needs`(
    count: Int
  ) async throws {
    let (sender, receiver, address) = try DatagramTransport.ipv4.pair()
    let datagram = Datagram([1], to: address)
    try await sender.send(Array(repeating: datagram, count: count), timeout: .zero)
    // Also behind one that is longer than a budget.
    let batch = Task.immediate { try await sender.send(Array(repeating: datagram, count: count)) }
    try await sender.enqueueSend(datagram, timeout: .zero).value
    try await sender.send([datagram], timeout: .zero)
    try await batch.value
    #expect(await sender.metrics.datagramsSent == UInt64(2 * count + 2))
    #expect(await sender.immediateSends.isEmpty)
    await receiver.close()
  }

  @Test func `A batch without time to wait ends at a destination without room, after any number of budgets`()
    async throws
  {
    let (sender, deaf, address) = try DatagramTransport.unix.pair()
    let datagram = Datagram([1], to: address)
    await expectError(.timedOut) { try await sender.send(Array(repeating: datagram, count: 2000), timeout: .zero) }
    let metrics = await sender.metrics
    #expect(metrics.pendingSends == 0 && (1...1000).contains(metrics.datagramsSent), "\(metrics)")
    await deaf.close()
  }

  @Test(arguments: [512, 513, 5000], [true, false])
  func `A batch to a destination without room has a budget, too`(count: Int, isReplies: Bool) async throws {
    let (deaf, sender, address) = try DatagramTransport.unix.pair()
    try await deaf.send([1], to: address)
    let request = try await sender.receive()
    while await sender.metrics.pendingSends == 0 { try await sender.send(request.reply([1])) }
    let datagram = isReplies ? request.reply([2]) : Datagram([2], to: deaf.localAddresses[0])
    let before = await sender.metrics.datagramsUndelivered
    let done = await sender.startSendingToFull(Array(repeating: datagram, count: count))
    #expect(done == min(count, 512))
    // The others follow without another event.
    try await eventually("all wait or are dropped") { await sender.hasPassedAll }
    if isReplies {
      let metrics = await sender.metrics
      #expect(Int(metrics.datagramsUndelivered - before) + metrics.pendingSends == count + 1)
    }
    await deaf.close()
  }
}

extension UDPEndpoint {
  /// Begins a batch whose destination has no room. Returns how many datagrams were passed before anything else happens.
  fileprivate func startSendingToFull(_ batch: [Datagram]) -> Int {
    _ = admitSend(.datagrams(batch), nil, isBatch: true)
    pumpSends()
    return sends.queue.entries.first?.passed ?? batch.count
  }

  fileprivate var hasPassedAll: Bool { sends.queue.entries.isEmpty }

  /// Begins a batch, and looks at it before anything else happens.
  fileprivate func startSending(_ batch: [Datagram]) -> (isOver: Bool, isQueued: Bool) {
    let operation = admitSend(.datagrams(batch), nil, isBatch: true)
    pumpSends()
    return (operation.outcome != nil, !sends.queue.isEmpty)
  }

  fileprivate var immediateSends: [UInt64] { sends.queue.immediate }
}
