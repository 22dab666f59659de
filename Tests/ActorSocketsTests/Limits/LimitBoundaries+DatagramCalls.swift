import SocketSystem
import TestSupport

@testable import ActorSockets

// How many datagrams one system call, or one budget, has.

extension LimitBoundaries {
  private static let sent = "datagrams sent with one system call; their bytes"
  private static let runs = "datagrams that the kernel gets as one message; their bytes"

  private static let drops =
    "datagrams that a filter drops before other sockets run, without the fetch that reaches this number"

  static let datagramCalls: [LimitBoundary] = [
    .most("datagrams fetched with one system call") { count in try await fetchedTogether(count) },
    .most("the same with ``UDPEndpoint/Configuration/receiveOffload``") { count in
      // The kernel gets each datagram by itself, so it joins no datagrams.
      try await fetchedTogether(count) {
        $0.receiveOffload = true
        $0.segmentationOffload = false
      }
    },
    .most(sent) { count in fitsIntoBatch([Int](repeating: 1, count: count)) },
    .most(sent, position: 1) { count in
      fitsIntoBatch(stride(from: 0, to: count, by: 60_000).map { min(60_000, count - $0) })
    },
    .most(runs) { count in
      guard var run = SegmentRun(size: 1, limit: .max) else { return false }
      return (1..<count).allSatisfy { _ in run.extend(by: 1) }
    },
    .most(runs, position: 1) { count in
      guard var run = SegmentRun(size: 33_000, limit: .max) else { return false }
      return run.extend(by: count - 33_000)
    },
    .most("datagrams sent before other sockets run") { count in
      let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      let batch = Array(repeating: Datagram([1], to: receiver.localAddresses[0]), count: count)
      let isSent = await sender.sendsAtOnce(batch).all
      try await eventually("the rest is sent") { await sender.metrics.pendingSends == 0 }
      await sender.close()
      await receiver.close()
      return isSent
    },
    .most(drops) { count in
      var configuration = UDPEndpoint.Configuration()
      configuration.receiveBufferSize = 4 << 20
      configuration.receiveFilter = { _ in .drop }
      let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration)
      let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      for _ in 0..<count { try await sender.send([1], to: receiver.localAddresses[0]) }
      return await receiver.dropsAtOnce() == count
    },
  ]

  private static func fetchedTogether(
    _ count: Int, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
  ) async throws -> Bool {
    var configuration = UDPEndpoint.Configuration()
    change(&configuration)
    let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration)
    let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration)
    for _ in 0..<count { try await sender.send([1], to: receiver.localAddresses[0]) }
    _ = try await receiver.receive()
    return await receiver.metrics.fetchedAhead == count - 1
  }

  private static func fitsIntoBatch(_ sizes: [Int]) -> Bool {
    guard let batch = DatagramBatch() else { return false }
    return sizes.allSatisfy { size in
      let bytes = [UInt8](repeating: 1, count: size)
      return batch.add(bytes.span, to: .ipv4(.loopback, port: 1), nil, isIPv6: false)
    }
  }
}

extension UDPEndpoint {
  /// Begins to send a batch. Returns whether all of it, and how many datagrams, are sent before anything else happens.
  @discardableResult
  func sendsAtOnce(_ batch: [Datagram]) -> (all: Bool, count: UInt64) {
    let operation = admitSend(.datagrams(batch), nil, isBatch: true)
    pumpSends()
    return (operation.outcome != nil, counts.datagramsSent)
  }

  func dropsAtOnce() -> Int {
    let before = counts.filtered
    core.rotation.mayAllBeReady()
    _ = fetch(upTo: Self.fetchSize)
    return Int(counts.filtered - before)
  }
}
