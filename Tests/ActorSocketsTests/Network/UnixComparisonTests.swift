import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The unix sockets of the simulated kernel answer as those of Linux do.
@Suite(.needsNamespaces) struct UnixComparisonTests {
  /// `ACTORSOCKETS_SEEDS` sets the number of histories, up to 100,000.
  @Test func `Random histories of calls on unix sockets have the same outcomes on Linux and in a simulation`()
    async throws
  {
    let count = seeds(2_000)
    // In a namespace of its own, the queues of datagram sockets have the usual length: net.unix.max_dgram_qlen.
    let folder = try SocketFolder()
    let undecided = try await Namespace().run { try Self.compare(0..<count, in: folder.path) }
    #expect(undecided * 100 <= count, "Linux did something else each time in \(undecided) histories")
  }

  /// Compares the histories of some seeds.
  ///
  /// - Returns: The number of those in which Linux does not do the same every time.
  private static func compare(_ seeds: Range<UInt64>, in folder: String) throws -> Int {
    var undecided = 0
    for seed in seeds {
      let history = UnixHistory(seed: seed)
      let simulated = try history.simulated(in: folder)
      if try history.onLinux(in: folder) == simulated { continue }
      // The lock of the folder may have been held by another process. Only what Linux does every time is compared.
      let again = try (0..<3).map { _ in try history.onLinux(in: folder) }
      if again.contains(simulated) {
        undecided += 1
        continue
      }
      let index = zip(again[0], simulated).enumerated().first { $1.0 != $1.1 }?.offset ?? 0
      let before = again[0][..<index].joined(separator: "\n")
      Issue.record("seed \(seed): Linux: \(again[0][index]), simulated: \(simulated[index]), after:\n\(before)")
    }
    return undecided
  }
}
