import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Disks that are slow, full or broken.
@Suite(.tags(.crashes)) struct DiskFaultTests {
  /// Runs a test on a host with a file, which has 4,096 bytes that differ from sector to sector and are synchronized.
  private func withFile(
    seeds: Range<UInt64> = 0..<1,
    _ body: @escaping @Sendable (_ host: SimulatedHost, _ file: any DiskFile, _ contents: [UInt8]) async throws -> Void
  ) async throws {
    try await simulated(seeds: seeds) { simulation in
      let host = simulation.host("server")
      let contents = (0..<4_096).map { UInt8($0 / 512 + 1) }
      try await host.run {
        let file = try await host.disk.open("log")
        try await file.write(contents, at: 0)
        try await file.synchronize()
        try await host.disk.synchronizeDirectory("")
        try await body(host, file, contents)
      }
    }
  }

  @Test func `Calls take the time that the disk takes, whatever the clock of the host shows`() async throws {
    try await withFile { host, file, _ in
      let clock = try #require(Simulation.current).clock
      host.setClock(drift: 1)
      var properties = DiskProperties()
      properties.readLatency = .milliseconds(2)...(.milliseconds(2))
      properties.writeLatency = .milliseconds(3)...(.milliseconds(3))
      properties.synchronizeLatency = .seconds(7)...(.seconds(7))
      host.disk.properties = properties
      #expect(host.disk.properties == properties)
      func time(_ body: () async throws -> Void) async throws -> Duration {
        let start = clock.now
        try await body()
        return start.duration(to: clock.now)
      }
      #expect(try await time { _ = try await file.read(at: 0, count: 1) } == .milliseconds(2))
      #expect(try await time { try await file.append([1]) } == .milliseconds(3))
      #expect(try await time { try await host.disk.rename("log", to: "new") } == .milliseconds(3))
      #expect(try await time { try await file.synchronize() } == .seconds(7))
      #expect(try await time { try await host.disk.synchronizeDirectory("") } == .seconds(7))
      properties.writeLatency = .zero...(.zero)
      host.disk.properties = properties
      #expect(try await time { try await file.append([1]) } == .zero)
      // A cancelled caller waits as long.
      let task = Task {
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        return try await time { try await file.synchronize() }
      }
      #expect(try await task.value == .seconds(7))
    }
  }

  @Test func `By default a sync takes 1 to 10 milliseconds`() async throws {
    try await withFile { host, file, _ in
      let clock = try #require(Simulation.current).clock
      var times: Set<Duration> = []
      for _ in 0..<20 {
        let start = clock.now
        try await file.synchronize()
        times.insert(start.duration(to: clock.now))
      }
      #expect(times.count > 10)
      #expect(times.allSatisfy { (.milliseconds(1)...(.milliseconds(10))).contains($0) })
    }
  }

  @Test func `A call that takes for ever ends with the simulation`() async throws {
    let outcome = Notes<String>()
    await #expect(throws: (any Error).self) {
      try await simulated { simulation in
        let host = simulation.host("server")
        host.disk.properties.readLatency = .seconds(Int64.max)...(.seconds(Int64.max))
        try await simulation.clock.sleep(for: .seconds(1))
        _ = try await host.disk.list("")
        outcome.add("returned")
      }
    }
    #expect(outcome.all.isEmpty)
  }

  @Test func `Several faults for the next call let as many calls fail`() async throws {
    try await withFile { host, file, _ in
      for _ in 0..<2 { host.disk.failNext(.write) }
      host.disk.failNext(.write, after: 3)
      for fails in [true, true, false, true, false] {
        if fails {
          await expectError(.diskFailed) { try await file.append([1]) }
        } else {
          try await file.append([1])
        }
      }
    }
  }

  @Test func `A corrupt read differs although all sectors are equal`() async throws {
    try await simulated(seeds: 0..<20) { simulation in
      let disk = simulation.host("server").disk
      let contents = [UInt8](repeating: 7, count: 2_048)
      try await disk.store(contents, at: "log")
      disk.properties.corruptReads = 1
      for _ in 0..<10 { #expect(try await disk.contents(of: "log") != contents) }
    }
  }

  @Test func `A full disk says how much it has taken`() async throws {
    try await withFile { host, file, _ in
      host.disk.properties.capacity = 4 * 4_096
      let error = await expectError(.diskFull, saying: "no room") {
        try await file.append([UInt8](repeating: 1, count: 10_000))
      }
      #expect(error.bytesTransferred == 8_192)
      let count = try await file.count
      #expect(count == 3 * 4_096)
      await expectError(.diskFull) { _ = try await host.disk.open("other") }
      await expectError(.diskFull) { try await host.disk.replace("log", with: [1]) }
      #expect(try await host.disk.list("") == ["log"])
      host.disk.properties.capacity = 1 << 20
      try await host.disk.replace("log", with: [1])
    }
  }

  @Test func `The call that a test has planned fails, and only that`() async throws {
    try await withFile { host, file, _ in
      host.disk.failNext(.read, after: 1)
      _ = try await file.read(at: 0, count: 1)
      await expectError(.diskFailed) { _ = try await file.read(at: 0, count: 1) }
      _ = try await file.read(at: 0, count: 1)
      host.disk.failNext(.write)
      host.disk.failNext(.write, after: 1)
      let error = await expectError(.diskFailed) { try await file.write([9], at: 0) }
      #expect(error.bytesTransferred == 0 && error.errno != 0)
      await expectError(.diskFailed) { try await host.disk.rename("log", to: "new") }
      #expect(try await host.disk.contents(of: "log").first == 1)
      host.disk.failNext(.synchronize)
      await expectError(.diskFailed) { try await host.disk.synchronizeDirectory("") }
      try await host.disk.synchronizeDirectory("")
    }
  }

  @Test func `A write that fails may have begun, and says how far`() async throws {
    let counts = Notes<Int>()
    try await withFile(seeds: 0..<20) { host, file, contents in
      host.disk.properties.failedWrites = 1
      let error = await expectError(.diskFailed) { try await file.write([UInt8](repeating: 9, count: 2_000), at: 100) }
      let bytes = try await file.read(at: 0, count: 4_096)
      let end = 100 + error.bytesTransferred
      #expect(bytes == contents[..<100] + [UInt8](repeating: 9, count: error.bytesTransferred) + contents[end...])
      counts.add(error.bytesTransferred)
    }
    #expect(Set(counts.all).count > 2 && Set(counts.all).isSubset(of: [0, 412, 924, 1_436, 1_948]))
  }

  @Test func `After a failed sync, a later one does not bring the writes to the disk, and only new writes do`()
    async throws
  {
    let first = Notes<UInt8>()
    try await simulated(seeds: 0..<40) { simulation in
      let host = simulation.host("server")
      try await host.run {
        let file = try await host.disk.open("log")
        try await host.disk.synchronizeDirectory("")
        try await file.write([1, 1], at: 0)
        host.disk.failNext(.synchronize)
        await expectError(.diskFailed) { try await file.synchronize() }
        // The program sees them as long as the power does not fail.
        #expect(try await file.read(at: 0, count: 2) == [1, 1])
        try await file.write([2], at: 1)
        try await file.synchronize()
      }
      host.crash()
      let bytes = try await host.disk.contents(of: "log")
      #expect(bytes.count == 2 && bytes[1] == 2)
      first.add(bytes[0])
    }
    #expect(Set(first.all) == [0, 1])
  }

  @Test func `A corrupt read differs in one bit or one sector, and the next one may be right`() async throws {
    let differences = Notes<Int>()
    try await withFile(seeds: 0..<40) { host, file, contents in
      host.disk.properties.corruptReads = 1
      let bytes = try await file.read(at: 0, count: 4_096)
      differences.add(zip(bytes, contents).count { $0 != $1 })
      #expect(bytes.count == contents.count)
      host.disk.properties.corruptReads = 0
      #expect(try await file.read(at: 0, count: 4_096) == contents)
    }
    #expect(Set(differences.all) == [1, 512])
  }

  @Test func `A sector that is damaged cannot be read until it is written`() async throws {
    try await withFile { host, file, contents in
      try host.disk.damage("log", at: 1_024)
      for (offset, count) in [(1_024, 1), (1_535, 1), (0, 4_096)] {
        await expectError(.diskFailed) { _ = try await file.read(at: offset, count: count) }
      }
      #expect(try await file.read(at: 0, count: 1_024) == Array(contents[..<1_024]))
      #expect(try await file.read(at: 1_536, count: 10_000) == Array(contents[1_536...]))
      try await file.write(Array(contents[1_024..<1_536]), at: 1_024)
      #expect(try await file.read(at: 0, count: 4_096) == contents)
      try host.disk.flipBit(of: "log", at: 5, bit: 7)
      #expect(try await file.read(at: 5, count: 1) == [contents[5] ^ 128])
      expectErrorNow(.pathNotFound) { try host.disk.damage("missing", at: 0) }
    }
  }

  @Test func `A write can leave a sector that cannot be read`() async throws {
    try await withFile { host, file, contents in
      host.disk.properties.latentErrors = 1
      try await file.write(Array(contents[..<1_024]), at: 0)
      host.disk.properties.latentErrors = 0
      await expectError(.diskFailed) { _ = try await file.read(at: 0, count: 1_024) }
      #expect(try await file.read(at: 1_024, count: 512) == Array(contents[1_024..<1_536]))
      try await file.write(Array(contents[..<1_024]), at: 0)
      #expect(try await file.read(at: 0, count: 4_096) == contents)
    }
  }

  @Test func `Some calls fail if a fraction of them shall`() async throws {
    try await withFile { host, file, _ in
      host.disk.properties.failedReads = 0.3
      host.disk.properties.failedSynchronizations = 0.3
      var failures = (reads: 0, syncs: 0)
      for _ in 0..<200 {
        do { _ = try await file.read(at: 0, count: 1) } catch { failures.reads += 1 }
        do { try await file.synchronize() } catch { failures.syncs += 1 }
      }
      #expect((30...90).contains(failures.reads) && (30...90).contains(failures.syncs))
    }
  }
}
