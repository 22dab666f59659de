import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The simulated kernel answers as Linux does.
@Suite(.needsNamespaces) struct KernelComparisonTests {
  /// `ACTORSOCKETS_SEEDS` sets the number of histories, up to 100,000.
  @Test func `Random histories of calls have the same outcomes on Linux and in a simulation`() async throws {
    let count = seeds(2_000)
    // A network of their own for each thousand, so that connections in TIME_WAIT do not take all ports.
    var undecided = 0
    for first in stride(from: 0, to: count, by: 1_000) {
      let network = try await Namespace()
      try await network.ip("link set lo up")
      undecided += try await network.run { try Self.compare(first..<min(first + 1_000, count)) }
    }
    #expect(undecided * 100 <= count, "Linux was late in \(undecided) histories")
  }

  /// Compares the histories of some seeds.
  ///
  /// - Returns: The number of those in which Linux does not do the same every time.
  private static func compare(_ seeds: Range<UInt64>) throws -> Int {
    var undecided = 0
    for seed in seeds {
      let history = SocketHistory(seed: seed)
      let simulated = try history.simulated()
      if try history.onLinux() == simulated { continue }
      // Linux may have been late with a packet. Only what it does every time is compared.
      let again = try (0..<3).map { _ in try history.onLinux() }
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
