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

  @Test func `No clock goes back after a thread has slept`() async throws {
    let elapsed = Notes<Duration>()
    _ = try await failure(Simulation()) {
      let start = ContinuousClock.now
      Sleep.threadFor.begin()
      elapsed.add(start.duration(to: .now))
      // The simulation ends here, and cancels it.
      try? await Task.sleep(for: .seconds(100))
      elapsed.add(start.duration(to: .now))
    }
    #expect(
      elapsed.all.count == 2 && elapsed.all.allSatisfy { $0 >= .seconds(2) && $0 < .seconds(100) }, "\(elapsed.all)")
  }

  @Test func `A thread that sleeps again and again ends the process, with the reason`() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Simulation(seed: 9).run { while true { usleep(1_000) } }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("seed 9, at 1.000000000 s, on main: the program lets its thread sleep"), "\(text)")
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
    // The thread sanitizer has functions of its own in the places of some.
    let isSanitized = unsafe dlsym(nil, "__tsan_init") != nil
    for begin in begins {
      let text = try await deadlock(Simulation(), after: begin)
      let isNamed = text.contains("the program has used Dispatch, for which a simulation does not wait")
      #expect(isNamed || isSanitized, "\(text)")
    }
  }

  @Test func `A deadlock names threads, for which a simulation does not wait`() async throws {
    // Both sanitizers have a function of their own in this place.
    let isSanitized = unsafe dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil
    let text = try await deadlock(Simulation()) { Thread.detachNewThread {} }
    #expect(text.contains("the program has started threads, for which a simulation does not wait") != isSanitized)
  }

  @Test func `Work for tasks that are older than the simulation is no thread of the program`() async throws {
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    let older = Task { for await _ in stream {} }
    let text = try await deadlock(Simulation()) { for number in 0..<100 { continuation.yield(number) } }
    #expect(!text.contains("started threads"), "\(text)")
    continuation.finish()
    await older.value
  }

  @Test func `A deadlock without helpers names none`() async throws {
    let text = try await deadlock(Simulation()) {}
    #expect(!text.contains("does not wait"))
  }
}
