import TestSupport
import Testing

/// The simulated kernel answers as Linux does. `ACTORSOCKETS_SEED_COUNT` sets the number of histories, up to 100,000.
@Suite(.needsNamespaces, .tags(.singleThread)) struct KernelComparisonTests {
  enum Sockets: CaseIterable, Sendable { case tcp, udp, unix }

  @Test(arguments: Sockets.allCases)
  func `Random calls on sockets have the same outcomes on Linux and in a simulation`(sockets: Sockets) async throws {
    // In a namespace, the queues of unix datagram sockets have the usual length: net.unix.max_dgram_qlen.
    let folder = try SocketFolder()
    let path = folder.path
    try await compare { seed in
      switch sockets {
      case .tcp: .tcp(seed: seed)
      case .udp: .udp(seed: seed)
      case .unix: .unix(seed: seed, in: path)
      }
    }
  }

  /// Compares the histories of many seeds, in a network that looks like that of a simulated host.
  private func compare(_ history: @escaping @Sendable (UInt64) -> History) async throws {
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
      try await network.receives(at: "fd00::1")
      undecided += try await network.run {
        try (first..<min(first + 1_000, count)).count { try !history($0).compare() }
      }
    }
    #expect(undecided * 100 <= count, "Linux did something else each time in \(undecided) histories")
  }
}
