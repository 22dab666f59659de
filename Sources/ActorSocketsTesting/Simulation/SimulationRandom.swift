internal import EpollReactor

/// Random numbers of a simulated program. The seed of the simulation decides them, and nothing else does.
///
/// ```swift
/// let delay = Int.random(in: 1...100, using: &simulation.random)
/// ```
///
/// Its numbers are independent of those that decide the order of tasks and what links do. Use it within the simulated program only;
/// elsewhere it stops the program.
public struct SimulationRandom: RandomNumberGenerator {
  /// Returns a random number.
  public func next() -> UInt64 { VirtualThread.required.streams.program.next() }
}

extension Simulation {
  /// Random numbers for the simulated program. All copies draw from one sequence, so their order matters.
  public var random: SimulationRandom {
    get { SimulationRandom() }
    set {}
  }
}

/// The random numbers that decide neither the order of tasks nor the network. Each use has its own sequence, so that one does not change
/// the numbers of another.
struct RandomStreams {
  var program: SplitMix
  var chaos: SplitMix
  var system: SplitMix
  private let disks: UInt64

  init(seed: UInt64) {
    program = SplitMix(seed: seed ^ 0x7072_6f67_7261_6d00)
    chaos = SplitMix(seed: seed ^ 0x6368_616f_7300_0000)
    system = SplitMix(seed: seed ^ 0x7379_7374_656d_0000)
    disks = seed ^ 0x6469_736b_7300_0000
  }

  /// The disk of each host has its own.
  func disk(of host: Int) -> SplitMix {
    var seeds = SplitMix(seed: disks)
    return SplitMix(seed: seeds.next() ^ UInt64(host))
  }
}
