import TestSupport
import Testing

@testable import ActorSockets

/// The rest that a pump of sends leaves when its share is used up.
@Suite(.conformance) struct SendShareTests {
  @Test(arguments: [511, 512, 513])
  func `A batch that the kernel has taken is over at once, also one of exactly a share`(count: Int) async throws {
    try await within("the batch is sent") {
      let receiver = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let sender = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let batch = Array(repeating: Datagram([1], to: receiver.localAddresses[0]), count: count)
      let (isOver, isQueued) = await sender.startSending(batch)
      #expect(isOver == (count <= 512))
      #expect(isQueued == (count > 512))
      try await eventually("the rest is sent") { await sender.metrics.pendingSends == 0 }
      #expect(await sender.metrics.datagramsSent == UInt64(count))
      await sender.close()
      await receiver.close()
    }
  }
}

extension UDPEndpoint {
  /// Begins a batch, and looks at it before anything else happens.
  fileprivate func startSending(_ batch: [Datagram]) -> (isOver: Bool, isQueued: Bool) {
    let operation = admitSend(.datagrams(batch), nil, isBatch: true)
    pumpSends()
    return (operation.outcome != nil, !sends.queue.isEmpty)
  }
}
