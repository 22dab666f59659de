import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Queued work must not keep sockets and deadlines waiting.
///
/// No result here is a measured time. Jobs take a fixed time, because they spin by the clock, and the tests assert
/// how many of them ran before something else happened.
@Suite(.endsInTime) struct StarvationTests {
  @Test(arguments: [1_000_000, 100_000] as [Int64])
  func `A task that computes and yields in a loop does not keep events and deadlines waiting`(
    slice: Int64
  ) async throws {
    let reactor = Reactor()
    let (probe, far) = try await Probe.attached(to: reactor)
    try await eventually("it is writable") { probe.events.all.count == 1 }
    let rounds = await Task(executorPreference: reactor) {
      await probe.arm(at: reactor.now, tag: 1)
      try? far.send([1])
      var rounds = 0
      while rounds < 5000, probe.events.all.count == 1 || probe.deadlines.all.isEmpty {
        spin(for: slice)
        rounds += 1
        await Task.yield()
      }
      return rounds
    }.value
    // One or two slices of 1 ms, or ten times as many of 0.1 ms, are expected; the limit leaves room.
    #expect(rounds < 64, "\(rounds) slices ran before the event and the deadline were looked at")
    far.close()
  }

  @Test func `However many calls are queued, few of them run between two looks at epoll`() async throws {
    let reactor = Reactor()
    let jobs = Notes<Int>()
    let count = 20_000
    let ran = Locked(0)
    await reactor.whileBlocked {
      for _ in 0..<count {
        reactor.submit {
          spin(for: 5000)
          ran.withLock { $0 += 1 }
        }
      }
      reactor.hook = Iterations { _ in jobs.add(ran.withLock { $0 }) }
    }
    try await eventually("all have run") { ran.withLock { $0 } == count }
    reactor.hook = nil
    // 200 calls fill a millisecond.
    let most = zip(jobs.all, jobs.all.dropFirst()).map { $1 - $0 }.max() ?? count
    #expect(most < 2000, "\(most) calls ran between two looks at epoll")
  }

  @Test func `Calls that are left for later iterations stay in their order`() async throws {
    let reactor = Reactor()
    let order = Notes<Int>()
    let count = 2000
    for number in 0..<count {
      reactor.submit {
        if number % 50 == 0 { spin(for: 500_000) }
        order.add(number)
        // This call goes behind everything that is queued by now.
        if number < 100 { reactor.submit { order.add(count + number) } }
      }
    }
    try await eventually("all have run") { order.all.count == count + 100 }
    #expect(order.all.filter { $0 < count } == Array(0..<count))
    #expect(order.all.filter { $0 >= count } == Array(count..<count + 100))
  }

  @Test func `Calls that are left when the reactor is dropped are run`() async throws {
    let ran = Locked(0)
    do {
      let reactor = Reactor()
      for _ in 0..<20 {
        reactor.submit {
          spin(for: 1_000_000)
          ran.withLock { $0 += 1 }
        }
      }
    }
    try await eventually("all have run") { ran.withLock { $0 } == 20 }
  }

  @Test func `Sockets that always ask for another turn do not keep deadlines waiting`() async throws {
    let reactor = Reactor()
    let turns = Notes<Int>()
    let late = Probe(reactor)
    try await late.enter()
    var greedy: [Probe] = []
    for number in 0..<50 {
      let probe = Probe(reactor)
      try await probe.enter()
      await probe.react { probe, _ in
        spin(for: 200_000)
        if !late.deadlines.all.isEmpty { return }
        turns.add(number)
        if turns.all.count == 60 { late.assumeIsolated { $0.arm(at: reactor.now, tag: 1) } }
        if turns.all.count < 10_000 { probe.reschedule() }
      }
      greedy.append(probe)
    }
    let asking = greedy
    // All in one job, so that a round has all of them. The deadline is armed at the beginning of the second one.
    reactor.submit { for probe in asking { probe.assumeIsolated { $0.reschedule() } } }
    try await eventually("the deadline has come") { !late.deadlines.all.isEmpty }
    // The rest of the round would be 8 ms.
    let count = turns.all.count
    #expect(count < 85, "\(count - 60) turns were given before the deadline was looked at")
    // Those that are left come before those that have just asked: each has one turn in a round.
    #expect(turns.all.prefix(60).elementsEqual(Array(0..<50) + Array(0..<10)))
  }

  @Test func `A deadline waits for the turns of its socket, however long the turns of others take`() async throws {
    let reactor = Reactor()
    let turns = Locked(0)
    let slow = Probe(reactor)
    try await slow.enter()
    let turnsBefore = Notes<Int>()
    await slow.react { probe, _ in
      let count = turns.withLock { count in
        count += 1
        return count
      }
      if count < 3 { probe.reschedule() }
    }
    var others: [Probe] = []
    for _ in 0..<100 {
      let probe = Probe(reactor)
      try await probe.enter()
      await probe.react { probe, _ in
        spin(for: 1_000_000)
        if !slow.deadlines.all.isEmpty {
          if turnsBefore.all.isEmpty { turnsBefore.add(turns.withLock { $0 }) }
        } else {
          probe.reschedule()
        }
      }
      others.append(probe)
    }
    let asking = others + [slow]
    // An iteration gives one turn to one of the 100, so a round is 100 iterations.
    reactor.submit {
      for probe in asking { probe.assumeIsolated { $0.reschedule() } }
      slow.assumeIsolated { $0.arm(at: reactor.now, tag: 1) }
    }
    try await eventually("the deadline has come") { !turnsBefore.all.isEmpty }
    #expect(turnsBefore.all == [3])
  }

  @Test func `The lag says how long queued jobs wait, and the hook is told`() async throws {
    let reactor = Reactor()
    let lags = Notes<Duration>()
    let told = Notes<Int64>()
    let count = 60
    await reactor.whileBlocked {
      for _ in 0..<count {
        reactor.submit {
          spin(for: 1_000_000)
          lags.add(reactor.metrics.lag)
        }
      }
      reactor.hook = Iterations { told.add($0) }
    }
    try await eventually("all have run") { lags.all.count == count }
    await Task(executorPreference: reactor) {}.value
    reactor.hook = nil
    // The last job has waited for all other jobs, each of which took a millisecond.
    #expect(lags.all.last.map { $0 >= .milliseconds(count) } == true, "\(lags.all.last ?? .zero)")
    #expect(told.all.max().map { $0 >= Int64(count) * 1_000_000 } == true, "\(told.all.max() ?? 0)")
  }

  @Test func `Events are carried out before deadlines that passed while the reactor was held up`() async throws {
    let reactor = Reactor()
    // One look at epoll does not bring all events of 600 descriptors.
    var probes: [Probe] = []
    var peers: [RawSocket] = []
    let firsts = Notes<String>()
    for _ in 0..<600 {
      let (probe, far) = try await Probe.attached(to: reactor)
      probes.append(probe)
      peers.append(far)
    }
    try await eventually("all are writable") { probes.allSatisfy { $0.events.all.count == 1 } }
    let (sent, armed) = (peers, probes)
    reactor.submit {
      let end = reactor.now + 1_000_000
      for probe in armed {
        probe.assumeIsolated { probe in
          probe.arm(at: end, tag: 1)
          probe.react { probe, readiness in
            if readiness.contains(.readable) { firsts.add(probe.deadlines.all.isEmpty ? "event" : "deadline") }
          }
        }
      }
      for peer in sent { try? peer.send([1]) }
      while reactor.now <= end {}
    }
    try await eventually("all have come") { probes.allSatisfy { $0.deadlines.all == [1] } }
    #expect(firsts.all.count == 600 && !firsts.all.contains("deadline"))
    for peer in peers { peer.close() }
  }
}
