import ActorSocketsTesting
import TestSupport
import Testing

/// The history of `QueueModelTests` on real sockets and on streams of every kind, whose threads run at once.
@Suite(.tags(.repeats)) struct ManyOperationsTests {
  /// As many as fit into some seconds, and 3,000 in the long form.
  private static let operations = min(rounds, 18_000) / 6

  private func run(
    _ transport: Transport, _ seed: UInt64, isNarrow: Bool, operations: Int, _ sizes: QueueHistory.Sizes
  ) async throws {
    try await within("all operations come out; seed \(seed)", seconds: 120) {
      let time = ManualTime()
      let pair = try await transport.pair(on: time.reactor) {
        $0.isNarrow = isNarrow
        $0.writeBudget = 100_000
      }
      try await QueueHistory.run(pair, .manual(time), seed: seed, operations: operations, sizes)
    }
  }

  @Test(arguments: Transport.allCases, 1...12 as ClosedRange<UInt64>)
  func `Many operations on a stream come out as if a queue did one after the other`(
    transport: Transport, seed: UInt64
  ) async throws {
    try await run(
      transport, seed, isNarrow: false, operations: Self.operations, QueueHistory.Sizes(read: 400, write: 3_000))
  }

  // Bytes in both directions at once, through buffers as small as these, wait for timers of the kernel.
  @Test(arguments: Transport.allCases, 1...12 as ClosedRange<UInt64>)
  func `Many writes into a stream without much room come out as if a queue did one after the other`(
    transport: Transport, seed: UInt64
  ) async throws {
    try await run(
      transport, seed, isNarrow: true, operations: Self.operations / 2, QueueHistory.Sizes(write: 3_000, piece: 0))
  }
}
