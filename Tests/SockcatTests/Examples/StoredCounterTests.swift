import ActorSockets
import ActorSocketsTesting
import Synchronization
import TestSupport
import Testing

/// A count that was returned is not on the disk.
struct LostCount: Error {
  let count: Int
}

/// Counts until the power fails, three times, and checks that the disk has each count that was returned.
func count(in simulation: Simulation, on disk: @escaping @Sendable (SimulatedDisk) -> any Disk) async throws {
  let host = simulation.host("counter")
  let last = Mutex(0)
  host.start {
    let counter = try await StoredCounter(on: disk(host.disk))
    while true {
      let count = try await counter.increment()
      last.withLock { $0 = count }
    }
  }
  for _ in 1...3 {
    try await simulation.clock.sleep(for: .milliseconds(Int.random(in: 1...100, using: &simulation.random)))
    host.crash()
    let count = try await StoredCounter(on: host.disk).increment() - 1
    if count < last.withLock({ $0 }) { throw LostCount(count: count) }
    host.restart()
  }
}

/// A disk whose files do not wait for the disk.
private struct HastyDisk: Disk {
  struct File: DiskFile {
    let file: any DiskFile

    var count: Int { get async throws { try await file.count } }
    @concurrent func read(at offset: Int, count: Int) async throws -> [UInt8] {
      try await file.read(at: offset, count: count)
    }
    @concurrent func write(_ bytes: [UInt8], at offset: Int) async throws {
      try await file.write(bytes, at: offset)
    }
    @concurrent func append(_ bytes: [UInt8]) async throws { try await file.append(bytes) }
    @concurrent func truncate(to size: Int) async throws { try await file.truncate(to: size) }
    @concurrent func synchronize() async throws {}
  }

  let disk: any Disk

  @concurrent func open(_ path: String, creation: FileCreation) async throws -> any DiskFile {
    File(file: try await disk.open(path, creation: creation))
  }
  @concurrent func rename(_ path: String, to newPath: String) async throws {
    try await disk.rename(path, to: newPath)
  }
  @concurrent func remove(_ path: String) async throws { try await disk.remove(path) }
  @concurrent func createDirectory(_ path: String) async throws { try await disk.createDirectory(path) }
  @concurrent func list(_ path: String) async throws -> [String] { try await disk.list(path) }
  @concurrent func synchronizeDirectory(_ path: String) async throws { try await disk.synchronizeDirectory(path) }
}

/// The counter of the article about distributed programs.
@Suite(.tags(.crashes)) struct StoredCounterTests {
  @Test func `Whenever the power fails, each count that was returned is on the disk`() async throws {
    try await within("the simulations are over") {
      try await Simulation.explore(seeds: 0..<200) { simulation in try await count(in: simulation) { $0 } }
    }
  }

  @Test func `Without a sync, a simulation finds a count that is lost`() async throws {
    let failure = try await within("a simulation fails") {
      await #expect(throws: SimulationFailure.self) {
        try await Simulation.explore(seeds: 0..<20) { simulation in
          try await count(in: simulation) { HastyDisk(disk: $0) }
        }
      }
    }
    #expect(failure?.error is LostCount)
  }

  /// The settings that the article shows.
  @Test func `A disk is slow, fails and is small`() async throws {
    let simulation = Simulation()
    let error = try await within("the simulation is over") {
      await #expect(throws: SocketError.self) {
        try await simulation.run {
          let host = simulation.host("counter")
          host.disk.properties.synchronizeLatency = .milliseconds(50)...(.seconds(2))
          host.disk.properties.failedSynchronizations = 0.01
          host.disk.properties.capacity = 1 << 20
          let counter = try await StoredCounter(on: host.disk)
          while true { _ = try await counter.increment() }
        }
      }
    }
    #expect(error?.code == .diskFailed)
  }
}
