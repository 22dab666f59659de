import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

extension LimitBoundaries {
  private static let attempts = "time between attempts to connect"
  private static let prompt =
    "of these, look-ups that a call waits for and that have just begun; how long that counts"
  private static let tries = "tries to connect"
  private static let delay = "delay before a try is repeated"
  private static let lingering =
    "time to discard input before a TCP socket is closed; while a server drains; if descriptors are short"

  static let connecting: [LimitBoundary] = [
    .time("time to connect, for all addresses together") {
      try await inSimulation { simulation in
        let target = silentHost(of: simulation)
        return await elapsed { await expectError(.timedOut) { _ = try await TCPConnection.connect(to: target) } }
      }
    },
    .time(attempts) { try attemptDelay(TCPConnection.Configuration().attemptDelay) },
    .time(attempts, position: 1) { try attemptDelay(.zero) },
    .time("wait for IPv6 addresses after the IPv4 addresses are known") {
      var machine = HappyEyeballs(awaiting: .any, attemptDelay: 0)
      machine.resolved(.ipv4, .success([.ipv4(.loopback, port: 1)]), at: 0)
      return try wait(of: &machine)
    },
    .most("addresses of a name that are tried, for each family") { count in
      var machine = HappyEyeballs(awaiting: .any, attemptDelay: 0)
      let addresses = (0..<count).map {
        SocketAddress.ipv4(IPv4Address("10.0.\($0 >> 8).\($0 & 255)") ?? .any, port: 80)
      }
      machine.resolved(.ipv6, .success([]), at: 0)
      machine.resolved(.ipv4, .success(addresses), at: 0)
      return machine.failAll([.connectionRefused]).0 == count
    },
    .most("look-ups that run at a time, in the whole process") { count in
      lookUps(count) { "name.domain\($0)" } == count
    },
    .most("of these, look-ups of names with the same last two parts") { count in
      lookUps(count) { "name\($0).a.example" } == count
    },
    .most(prompt) { count in
      var schedule = asked(count) { "name.domain\($0)" }
      var running = 0
      while case .begin = schedule.next(at: 0) { running += 1 }
      return running == count
    },
    .time(prompt, position: 1) {
      var schedule = asked(LookUpSchedule.promptThreads + 1) { "name.domain\($0)" }
      while case .begin = schedule.next(at: 0) {}
      guard case .wait(let time?) = schedule.next(at: 0), case .wait = schedule.next(at: time - 1),
        case .begin = schedule.next(at: time)
      else { throw Overdue(description: "the next look-up does not begin") }
      return .nanoseconds(time)
    },
    .most(tries) { count in try await triesToConnect(nil) >= count },
    .most(tries, position: 1) { count in try await triesToConnect(TCPConnection.Retry()) >= count },
    .time("time for one try, with a retry") {
      try await inSimulation { simulation in
        let begun = Notes<ContinuousClock.Instant>()
        var configuration = TCPConnection.Configuration()
        configuration.retry = TCPConnection.Retry()
        configuration.retry?.firstDelay = .zero
        configuration.prepare = { _ in begun.add(.now) }
        _ = try? await TCPConnection.connect(to: silentHost(of: simulation), configuration: configuration)
        let first = try #require(begun.all.first)
        let second = try #require(begun.all.dropFirst().first)
        return first.duration(to: second)
      }
    },
    .time(delay) { try #require(longestDelays(TCPConnection.Retry()).first) },
    .time(delay, position: 1) {
      var retry = TCPConnection.Retry()
      retry.maximumTries = 100
      return try #require(longestDelays(retry).last)
    },
    .time("time to send what was written, in `close()`") {
      try await inSimulation { simulation in
        let (near, far) = try await simulation.pair()
        // More than both ends have room for.
        _ = near.enqueueWrite([UInt8](repeating: 1, count: 4 << 20))
        return await elapsed {
          await near.close()
          withExtendedLifetime(far) {}
        }
      }
    },
    .time(lingering) {
      try await inSimulation { simulation in
        let (near, far) = try await simulation.pair()
        return await elapsed {
          await near.close()
          withExtendedLifetime(far) {}
        }
      }
    },
    .time(lingering, position: 1) {
      try await inSimulation { simulation in
        let listener = try await simulation.host("far").run { try TCPListener.bind(to: .port(80)) }
        let serving = Task { try await listener.serve { connection in try await connection.write(utf8: "answer\n") } }
        let client = try await TCPConnection.connect(to: .host("far", port: 80))
        _ = try await client.read(until: .lf)
        // The handler has returned, and the connection waits for its peer.
        serving.cancel()
        return try await elapsed { () async throws in
          #expect(try await serving.value.finished == 1)
          withExtendedLifetime(client) {}
        }
      }
    },
  ]

  static let liveness: [LimitBoundary] = [
    .time("time without bytes before keep-alive probes the peer") {
      try await timeUntilLost {
        $0.interval = .seconds(1)
        $0.count = 1
      } - .seconds(1)
    },
    .time("time between two probes") {
      try await timeUntilLost {
        $0.idle = .seconds(1)
        $0.count = 1
      } - .seconds(1)
    },
    .most("probes without an answer before the connection ends") { count in
      let time = try await timeUntilLost {
        $0.idle = .seconds(1)
        $0.interval = .seconds(1)
      }
      return time >= .seconds(1 + count)
    },
    .time("pause between two checks for an acknowledgement, in `flush`") {
      var acknowledgements = Acknowledgements<Int>()
      return .nanoseconds(acknowledgements.nextPause())
    },
    .time("pause between two checks for an acknowledgement, in `flush`", position: 1) {
      var acknowledgements = Acknowledgements<Int>()
      return .nanoseconds((0..<1_000).map { _ in acknowledgements.nextPause() }.max() ?? 0)
    },
  ]

  // MARK: Pure machines

  private static func attemptDelay(_ delay: Duration) throws -> Duration {
    let addresses = ([1, 2] as [UInt16]).map { SocketAddress.ipv4(.loopback, port: $0) }
    var machine = HappyEyeballs(trying: addresses, attemptDelay: delay.clampedNanoseconds)
    guard case .attempt = machine.next(at: 0) else { throw Overdue(description: "nothing is tried") }
    return try wait(of: &machine)
  }

  /// How long the machine waits now, at time 0, before it begins an attempt.
  private static func wait(of machine: inout HappyEyeballs) throws -> Duration {
    guard case .wait(let time?) = machine.next(at: 0), case .wait = machine.next(at: time - 1),
      case .attempt = machine.next(at: time)
    else { throw Overdue(description: "the machine does not wait for a time") }
    return .nanoseconds(time)
  }

  private static func asked(_ count: Int, named name: (Int) -> String) -> LookUpSchedule {
    var schedule = LookUpSchedule(maximumThreads: HostLookups.mostThreads)
    for number in 0..<count { schedule.ask(HostQuery(name: name(number), family: .ipv4)) }
    return schedule
  }

  private static func lookUps(_ count: Int, named name: (Int) -> String) -> Int {
    var schedule = asked(count, named: name)
    var (now, running): (Int64, Int) = (0, 0)
    while true {
      switch schedule.next(at: now) {
      case .begin: running += 1
      case .wait(let time?): now = time
      case .wait(nil): return running
      }
    }
  }

  private struct HighestNumbers: RandomNumberGenerator {
    mutating func next() -> UInt64 { .max }
  }

  /// The delays of a retry if chance makes each as long as it may be.
  private static func longestDelays(_ retry: TCPConnection.Retry) -> [Duration] {
    var schedule = RetrySchedule(retry)
    var random = HighestNumbers()
    let error = SocketError(.connectionRefused, operation: "connect")
    var delays: [Duration] = []
    while let delay = schedule.delay(after: error, &random) { delays.append(.nanoseconds(delay)) }
    return delays
  }

  // MARK: Simulations

  private static func silentHost(of simulation: Simulation) -> Endpoint {
    let host = simulation.host("silent")
    simulation.partition([simulation.host("main")], from: [host])
    return .address(host.addresses[0].socketAddress(port: 80))
  }

  private static func triesToConnect(_ retry: TCPConnection.Retry?) async throws -> Int {
    try await inSimulation { _ in
      let begun = Notes<Int>()
      var configuration = TCPConnection.Configuration()
      if let retry { configuration.retry = retry }
      configuration.prepare = { _ in begun.add(1) }
      await expectError(.connectionRefused) {
        _ = try await TCPConnection.connect(to: .address(.ipv4(.loopback, port: 1)), configuration: configuration)
      }
      return begun.all.count
    }
  }

  private static func timeUntilLost(
    _ change: @escaping @Sendable (inout TCPConnection.Liveness.KeepAlive) -> Void
  ) async throws -> Duration {
    try await inSimulation { simulation in
      let host = simulation.host("far")
      let listener = try await host.run { try TCPListener.bind(to: .port(80)) }
      var keepAlive = TCPConnection.Liveness.KeepAlive()
      change(&keepAlive)
      var configuration = TCPConnection.Configuration()
      configuration.liveness.keepAlive = keepAlive
      let near = try await TCPConnection.connect(to: .host("far", port: 80), configuration: configuration)
      // The peer's last packet has just arrived.
      let start = ContinuousClock.now
      let far = try await listener.accept()
      simulation.partition([simulation.host("main")], from: [host])
      await expectError(.timedOut) { _ = try await near.read() }
      withExtendedLifetime(far) {}
      return start.duration(to: .now)
    }
  }
}
