// The random numbers that a simulated program gets from the system.
//
// Invariants:
// - On the thread of a simulation, the seed decides them: `RandomStreams.system`. CVirtualTime says which functions are replaced.
// - They are independent of those that decide the order of tasks, the network, chaos and `Simulation.random`.

internal import CVirtualTime

extension VirtualThread {
  /// Why the seed cannot decide what the system says; `nil` if it can. The first simulation asks, when OpenSSL may have been loaded.
  static let obstacleOfRandom: String? = {
    cvirtualtime_replace_openssl_random()
    return cvirtualtime_hashes_repeat() ? nil : "something has changed the hashes of sets since the program started"
  }()
}

/// Called by CVirtualTime on the thread of a simulation.
@_cdecl("actorsockets_random")
func systemRandom() -> UInt64 { VirtualThread.current?.streams.system.next() ?? 0 }
