import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// Programs that hold the thread of their simulation, or wait for other threads.
@Suite(.tags(.foundation)) struct BlockingTests {
  // MARK: Sleeping

  enum Sleep: CaseIterable {
    case threadFor, threadUntil, sleep, usleep, nanosleep, clock

    func begin() {
      switch self {
      case .threadFor: Thread.sleep(forTimeInterval: 2)
      case .threadUntil: Thread.sleep(until: Date(timeIntervalSinceNow: 2))
      case .sleep: _ = Foundation.sleep(2)
      case .usleep: _ = Foundation.usleep(2_000_000)
      case .nanosleep:
        var time = timespec(tv_sec: 2, tv_nsec: 0)
        _ = unsafe Foundation.nanosleep(&time, nil)
      case .clock:
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        time.tv_sec += 2
        _ = unsafe clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil)
      }
    }
  }

  private func failure(
    _ simulation: Simulation, _ body: @escaping @Sendable () async throws -> Void
  ) async throws -> SimulationError? {
    try await within("the simulation is over") {
      await #expect(throws: SimulationError.self) { try await simulation.run(body) }
    }
  }

  @Test(arguments: Sleep.allCases) func `A thread that sleeps fails the simulation`(sleep: Sleep) async throws {
    let simulation = Simulation(seed: 9)
    let error = try await failure(simulation) {
      try await Task.sleep(for: .seconds(1))
      try await simulation.host("server").run { sleep.begin() }
      try await Task.sleep(for: .seconds(10))
    }
    let text = error?.description ?? ""
    #expect(error?.code == .unsupported && error?.time == .seconds(1))
    #expect(text.contains("seed 9, at 1.000000000 s, on server") && text.contains("use Task.sleep"), "\(text)")
    // Outside, threads sleep as before.
    let start = ContinuousClock.now
    _ = usleep(1_000)
    #expect(ContinuousClock.now - start >= .milliseconds(1))
  }

  // MARK: Helpers

  private func deadlock(_ simulation: Simulation, after begin: @escaping @Sendable () -> Void) async throws -> String {
    let error = try await failure(simulation) {
      begin()
      let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
      for await _ in stream {}
      withExtendedLifetime(continuation) {}
    }
    #expect(error?.code == .deadlock)
    return error?.description ?? ""
  }

  @Test func `A deadlock names Dispatch, for which a simulation does not wait`() async throws {
    let begins: [@Sendable () -> Void] = [
      { DispatchQueue.global().async {} }, { DispatchQueue.global().asyncAfter(deadline: .now()) {} },
      { DispatchQueue.global().async(group: DispatchGroup()) {} },
      { DispatchQueue(label: "queue").async(flags: .barrier) {} },
      { DispatchSource.makeTimerSource().activate() },
    ]
    for begin in begins {
      let simulation = Simulation()
      let text = try await deadlock(simulation, after: begin)
      #expect(text.contains("the program has used Dispatch, for which a simulation does not wait"), "\(text)")
      #expect(simulation.trace.contains("0.000000000 s the program has used Dispatch"))
    }
  }

  @Test func `A deadlock without helpers names none`() async throws {
    let text = try await deadlock(Simulation()) {}
    #expect(!text.contains("does not wait"))
  }
}
