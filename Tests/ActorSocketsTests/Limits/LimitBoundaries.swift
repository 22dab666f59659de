import ActorSocketsTesting
import SocketSystem
import TestSupport

@testable import ActorSockets

/// How the numbers of the page with the limits are tried. Numbers that are defaults are those of the code: a boundary passes none.
enum LimitBoundaries {
  static let all: [LimitBoundary] = [
    messages, captures, connecting, liveness, pools, servers, proxies, datagrams, datagramCalls, reactor, inspections,
  ].flatMap { $0 }

  private static let line = "bytes of a message, a line, or a read through a delimiter"
  private static let writes =
    "bytes that `enqueueWrite` may queue, or one write of any size; bytes that a write counts, at least"

  private static let messages: [LimitBoundary] = [
    .most(line) { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count - 1) + [10])
      return try await isWithinLimit { _ = try await near.read(until: .lf) }
    },
    .most(line) { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count - 1) + [10])
      return try await isWithinLimit { for try await _ in near.lines() { break } }
    },
    .most(line) { count in
      let (near, far) = wide()
      try await far.write(message: [UInt8](repeating: 65, count: count), lengthPrefix: .uint32(.big))
      return try await isWithinLimit { for try await _ in near.messages(lengthPrefix: .uint32(.big)) { break } }
    },
    .most("bytes of a read of the available bytes") { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count))
      return try await near.read()?.count == count
    },
    .most("bytes that buffered writes of one stream may have before they are sent") { count in
      WriteQueue<Int>().canBuffer(count)
    },
    .most("messages of a batch; bytes, without the last message") { count in
      var driver = ReadDriver()
      driver.admit(.batch(of: .line(.lf, maximumLength: 1)), 1)
      driver.receive([UInt8](repeating: 10, count: count))
      guard case .batch(let batch)? = driver.results.first else { return false }
      return batch.count == count
    },
    .end("messages of a batch; bytes, without the last message", position: 1) { count in
      var driver = ReadDriver()
      driver.admit(.batch(of: .line(.lf, maximumLength: 1 << 20)), 1)
      // A line of this many bytes, and an empty one that is the last of the batch.
      driver.receive([UInt8](repeating: 65, count: count - 1) + [10, 10])
      guard case .batch(let batch)? = driver.results.first else { return false }
      return batch.count == 2
    },
    .most(writes) { count in try await queues([count / 2, count - count / 2]) },
    // Two writes of one byte need a budget of twice what a write counts.
    .least(writes, position: 1) { count in try await queues([1, 1], budget: 2 * count) },
    .most("descriptors that the peer of a unix socket passed and that wait") { count in
      let (near, far) = try RawSocket.unixPair()
      let receiver = try TCPConnection.adopt(fileDescriptor: near.release())
      let sender = try TCPConnection.adopt(fileDescriptor: far.release())
      for _ in 0..<count {
        let ends = try pipeEnds()
        let reading = OwnedDescriptor(owning: ends.reading)
        _ = OwnedDescriptor(owning: ends.writing)
        try await sender.write([1], passing: reading)
        _ = try await receiver.read(exactly: 1)
      }
      var taken = 0
      while true {
        let isEmpty = await receiver.takeDescriptor() == nil
        if isEmpty { return taken == count }
        taken += 1
      }
    },
    .most("bytes of one chunk of `pipe` and `relay`, in each direction") { count in
      let (source, feeder) = wide()
      try await feeder.write([UInt8](repeating: 1, count: count))
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = 1
      let (destination, reader) = InMemoryConnection.pair(configuration: configuration)
      let piping = Task { try await pipe(from: source, to: destination) }
      try await eventually("a chunk waits") { await destination.status.unsentBytes > 0 }
      // One byte is with the reader.
      let chunk = await destination.status.unsentBytes + 1
      piping.cancel()
      _ = try? await piping.value
      withExtendedLifetime(reader) {}
      return chunk == count
    },
    .most("bytes that wait at one end of an in-memory connection") { count in
      let (near, far) = InMemoryConnection.pair()
      defer { withExtendedLifetime(far) {} }
      return try await isInTime { try await near.write([UInt8](repeating: 1, count: count), timeout: .zero) }
    },
  ]

  /// Whether all of these writes are queued while the peer has no room. With `nil` the budget is the default.
  private static func queues(_ sizes: [Int], budget: Int? = nil) async throws -> Bool {
    var configuration = InMemoryConnection.Configuration()
    configuration.writeBudget = budget ?? TCPConnection.Configuration().writeBudget
    let (near, far) = InMemoryConnection.pair(configuration: configuration)
    defer { withExtendedLifetime(far) {} }
    try await near.enqueueWrite([UInt8](repeating: 1, count: configuration.capacity)).value
    for size in sizes {
      _ = near.enqueueWrite([UInt8](repeating: 1, count: size))
      // The reactor takes each before the next one is called. Those that it has not taken have a limit of their own (`SubmissionTests`).
      _ = await near.status
    }
    return await near.status.unsentBytes == sizes.reduce(0, +)
  }

  // MARK: Tools

  static func wide() -> (InMemoryConnection, InMemoryConnection) {
    var configuration = InMemoryConnection.Configuration()
    configuration.capacity = 1 << 20
    return InMemoryConnection.pair(configuration: configuration)
  }

  static func isWithinLimit(_ body: () async throws -> Void) async throws -> Bool {
    try await succeeds(unless: .limitExceeded, body)
  }

  static func isInTime(_ body: () async throws -> Void) async throws -> Bool {
    try await succeeds(unless: .timedOut, body)
  }

  private static func succeeds(
    unless code: SocketError.Code, _ body: () async throws -> Void
  ) async throws -> Bool {
    do {
      try await body()
      return true
    } catch let error as SocketError where error.code == code {
      return false
    }
  }

  static func inSimulation<Value: Sendable>(
    _ body: @escaping @Sendable (Simulation) async throws -> Value
  ) async throws -> Value {
    let simulation = Simulation()
    return try await simulation.run { try await body(simulation) }
  }

  static func elapsed(_ body: () async throws -> Void) async rethrows -> Duration {
    let start = ContinuousClock.now
    try await body()
    return start.duration(to: .now)
  }

  static func waitForCancellation() async {
    let isCancelled = Gate()
    await withTaskCancellationHandler {
      await isCancelled.wait()
    } onCancel: {
      isCancelled.open()
    }
  }
}
