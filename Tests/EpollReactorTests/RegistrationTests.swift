import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

@Suite struct RegistrationTests {
  @Test func `Readiness is announced once for each change`() async throws {
    let reactor = Reactor()
    let (probe, far) = try await Probe.attached(to: reactor)
    try await eventually("it is writable") { probe.events.all == [Readiness.writable.rawValue] }
    for count in 2...5 {
      try far.send([1])
      try await eventually("it is readable") { probe.events.all.count == count }
      #expect(probe.events.all.last.map { Readiness(rawValue: $0).contains(.readable) } == true)
    }
    far.close()
    try await eventually("it has ended") { probe.events.all.count == 6 }
    #expect(probe.events.all.last.map { Readiness(rawValue: $0).contains(.ended) } == true)
    // No call reads the bytes, and no event comes again.
    try await reactor.sleeps()
    #expect(probe.events.all.count == 6)
  }

  @Test func `A turn that was asked for comes once, as an empty event`() async throws {
    let probe = Probe(Reactor())
    try await probe.enter()
    for count in 1...3 {
      await probe.askThrice()
      try await eventually("the turn comes") { probe.events.all.count == count }
    }
    #expect(probe.events.all == [0, 0, 0])
  }

  @Test(arguments: 1...20)
  func `An event of a descriptor that was closed does not reach the one that has its number now`(round: Int) async {
    await #expect(processExitsWith: .success) {
      let reactor = Reactor()
      let (first, firstFar) = try await Probe.attached(to: reactor)
      let (second, secondFar) = try await Probe.attached(to: reactor)
      let third = Probe(reactor)
      try await third.enter()
      let numbers = [await first.number, await second.number]
      try await eventually("both are writable") { first.events.all.count == 1 && second.events.all.count == 1 }
      let reused = Notes<Int32>()
      let kept = Notes<RawSocket>()
      // Whichever of the two hears of its event first closes the other's descriptor, and the third takes its number.
      for (probe, other) in [(first, second), (second, first)] {
        await probe.react { _, readiness in
          guard readiness.contains(.readable), reused.all.isEmpty else { return }
          guard let (near, far) = try? RawSocket.unixPair() else { return }
          kept.add(far)
          let closed = other.assumeIsolated { $0.closeDescriptor() }
          let number = fcntl(near.number, F_DUPFD, closed)
          reused.add(number == closed ? number : -1)
          third.assumeIsolated { try? $0.attach(RawSocket(owning: number)) }
        }
      }
      await Task(executorPreference: reactor) {
        // Both events are fetched in one batch.
        for far in [firstFar, secondFar] { try? far.send([1]) }
      }.value
      try await eventually("the third is writable") { !third.events.all.isEmpty }
      #expect(reused.all.count == 1 && numbers.contains(reused.all[0]))
      #expect(third.events.all == [Readiness.writable.rawValue])
      #expect(first.events.all.count + second.events.all.count == 3)
      // Until here: their ends would be events, too.
      for far in [firstFar, secondFar] { far.close() }
      for far in [firstFar, secondFar] + kept.all { far.close() }
    }
  }

  @Test func `Deadlines come in their order, at their time and never early`() async throws {
    let time = ManualTime()
    let probe = Probe(time.reactor)
    try await probe.enter()
    for tag in [5, 3, 9, 1, 7] as [UInt64] { await probe.arm(at: Int64(tag) * 1000, tag: tag) }
    await time.advance(by: .nanoseconds(999))
    #expect(probe.deadlines.all == [])
    await time.advance(by: .nanoseconds(1))
    #expect(probe.deadlines.all == [1])
    await time.advance(by: .nanoseconds(7999))
    #expect(probe.deadlines.all == [1, 3, 5, 7])
    await time.advance(by: .nanoseconds(1))
    #expect(probe.deadlines.all == [1, 3, 5, 7, 9])
    await probe.arm(at: -5, tag: 11)
    await time.advance(by: .zero)
    #expect(probe.deadlines.all.last == 11)
  }

  @Test func `Deadlines of the real clock are not early, and hardly late`() async throws {
    let reactor = Reactor()
    let probe = Probe(reactor)
    try await probe.enter()
    for milliseconds in [1, 5, 20] as [Int64] {
      let end = reactor.now + milliseconds * 1_000_000
      await probe.arm(at: end, tag: UInt64(milliseconds))
      try await eventually("the deadline comes") { probe.deadlines.all.last == UInt64(milliseconds) }
      let late = reactor.now - end
      #expect(late >= 0 && late < 10_000_000_000)
    }
  }

  @Test func `A million deadlines armed and disarmed leave nothing behind`() async throws {
    let time = ManualTime()
    let probe = Probe(time.reactor)
    try await probe.enter()
    await probe.armAndDisarm(1_000_000)
    #expect(await probe.armedDeadlines == (count: 0, capacity: 0))
    await probe.armMany(100_000)
    await time.advance(by: .seconds(1))
    #expect(probe.deadlines.all == Array(0..<100_000))
    #expect(await probe.armedDeadlines.count == 0)
  }

  @Test func `A deadline does not reach a handler that takes over the registration later`() async throws {
    let time = ManualTime()
    let (first, second) = (Probe(time.reactor), Probe(time.reactor))
    try await first.enter()
    await first.arm(at: 1000, tag: 1)
    await first.hand(to: second)
    await first.arm(at: 2000, tag: 2)
    await time.advance(by: .seconds(1))
    #expect(first.deadlines.all == [] && second.deadlines.all == [2])
  }

  @Test func `What left hears nothing any more`() async throws {
    let time = ManualTime()
    let (probe, far) = try await Probe.attached(to: time.reactor)
    await probe.arm(at: 1000, tag: 1)
    await probe.leave()
    let before = probe.events.all.count
    // The other end is closed, too.
    #expect(throws: SystemError.self) { try far.send([1]) }
    await time.advance(by: .seconds(1))
    time.reactor.shutdown()
    await probe.leave()
    #expect(probe.deadlines.all == [] && probe.shutdowns.all == [] && probe.events.all.count == before)
    far.close()
  }
}
