import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// A sequence of calls that can be made on Linux and on a simulated kernel, with a line for the outcome of each.
protocol ComparableHistory: SendableMetatype {
  init(seed: UInt64)
  func onLinux() throws -> [String]
  func simulated() throws -> [String]
}

extension SocketHistory: ComparableHistory {}
extension DatagramHistory: ComparableHistory {}

/// The simulated kernel answers as Linux does. `ACTORSOCKETS_SEEDS` sets the number of histories, up to 100,000.
@Suite(.needsNamespaces) struct KernelComparisonTests {
  @Test func `Random calls on TCP sockets have the same outcomes on Linux and in a simulation`() async throws {
    try await compare(SocketHistory.self)
  }

  @Test func `Random calls on UDP sockets have the same outcomes on Linux and in a simulation`() async throws {
    try await compare(DatagramHistory.self)
  }

  /// Compares the histories of many seeds, in a network that looks like that of a simulated host.
  private func compare(_ kind: any ComparableHistory.Type) async throws {
    let count = seeds(2_000)
    // A network of their own for each thousand, so that connections in TIME_WAIT do not take all ports.
    var undecided = 0
    for first in stride(from: 0, to: count, by: 1_000) {
      let network = try await Namespace()
      for command in [
        "link set lo up", "link add eth1 type veth peer name eth0", "link set eth1 up",
        "addr add fd00::1/64 dev eth0 nodad",
        "addr add 10.0.0.1/8 broadcast 10.255.255.255 dev eth0", "link set eth0 up", "route add 224.0.0.0/4 dev eth0",
      ] { try await network.ip(command) }
      undecided += try await network.run { try Self.compare(kind, first..<min(first + 1_000, count)) }
    }
    #expect(undecided * 100 <= count, "Linux was late in \(undecided) histories")
  }

  /// Compares the histories of some seeds.
  ///
  /// - Returns: The number of those in which Linux does not do the same every time.
  private static func compare(_ kind: any ComparableHistory.Type, _ seeds: Range<UInt64>) throws -> Int {
    var undecided = 0
    for seed in seeds {
      let history = kind.init(seed: seed)
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
