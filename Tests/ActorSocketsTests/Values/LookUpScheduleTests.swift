import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct LookUpScheduleTests {
  private static let millisecond: Int64 = 1_000_000

  private static func query(_ name: String, _ family: AddressFamily = .ipv4) -> HostQuery {
    HostQuery(name: name, family: family)
  }

  /// Begins everything that may begin now, and returns the names.
  private static func begin(_ schedule: inout LookUpSchedule, at now: Int64) -> [String] {
    var begun: [String] = []
    while case .begin(let query) = schedule.next(at: now) { begun.append(query.name) }
    return begun
  }

  /// Begins everything that may begin when time passes, and returns the number of look-ups.
  private static func beginAll(_ schedule: inout LookUpSchedule, from now: inout Int64) -> Int {
    var count = 0
    while true {
      switch schedule.next(at: now) {
      case .begin: count += 1
      case .wait(let time?): now = time
      case .wait(nil): return count
      }
    }
  }

  @Test func `A look-up runs once, whoever asks meanwhile`() {
    var schedule = LookUpSchedule(maximumThreads: 4)
    for _ in 0..<3 { schedule.ask(Self.query("a")) }
    schedule.ask(Self.query("a", .ipv6))
    #expect(Self.begin(&schedule, at: 0) == ["a", "a"])
    schedule.ask(Self.query("a"))
    #expect(schedule.next(at: 0) == .wait(until: nil))
    schedule.finished(Self.query("a"))
    schedule.ask(Self.query("a"))
    #expect(Self.begin(&schedule, at: 0) == ["a"])
  }

  @Test func `Names are the same only if their bytes are`() {
    #expect(Self.query("caf\u{e9}") != Self.query("cafe\u{301}"))
    #expect(Self.query("a").name == "a" && Self.query("A.b.C.").domain == Array("b.c".utf8))
    #expect(Self.query("host").domain == Array("host".utf8) && Self.query("b.c").domain == Array("b.c".utf8))
  }

  @Test func `Eight look-ups are prompt, and one more begins when the first has run for 100 ms`() {
    var schedule = LookUpSchedule(maximumThreads: 256)
    for number in 0..<9 { schedule.ask(Self.query("name \(number)")) }
    #expect(Self.begin(&schedule, at: 5).count == 8)
    #expect(schedule.next(at: 5) == .wait(until: 5 + 100 * Self.millisecond))
    #expect(Self.begin(&schedule, at: 4 + 100 * Self.millisecond).isEmpty)
    #expect(Self.begin(&schedule, at: 5 + 100 * Self.millisecond) == ["name 8"])
  }

  @Test func `At the end of the clock, look-ups begin as at any other time`() {
    var schedule = LookUpSchedule(maximumThreads: 256)
    for number in 0..<9 { schedule.ask(Self.query("name \(number)")) }
    #expect(Self.begin(&schedule, at: .max - 1).count == 8)
    #expect(schedule.next(at: .max - 1) == .wait(until: .max))
    #expect(Self.begin(&schedule, at: .max) == ["name 8"])
  }

  @Test func `A look-up that its callers have left makes room at once`() {
    var schedule = LookUpSchedule(maximumThreads: 256)
    for number in 0..<9 { schedule.ask(Self.query("name \(number)")) }
    #expect(Self.begin(&schedule, at: 0).count == 8)
    schedule.leave(Self.query("name 3"))
    #expect(Self.begin(&schedule, at: 0) == ["name 8"])
  }

  @Test func `A look-up that was left before it began does not begin`() {
    var schedule = LookUpSchedule(maximumThreads: 1)
    for name in ["a", "b", "c"] { schedule.ask(Self.query(name)) }
    #expect(Self.begin(&schedule, at: 0) == ["a"])
    schedule.leave(Self.query("b"))
    schedule.finished(Self.query("a"))
    #expect(Self.begin(&schedule, at: 0) == ["c"])
  }

  @Test func `No more look-ups run than the limit says, however long they take`() {
    var schedule = LookUpSchedule(maximumThreads: 256)
    for number in 0..<1000 { schedule.ask(Self.query("name\(number).test\(number)")) }
    var now: Int64 = 0
    let begun = Self.beginAll(&schedule, from: &now)
    #expect(begun == 256)
    schedule.finished(Self.query("name0.test0"))
    #expect(Self.begin(&schedule, at: now + LookUpSchedule.promptTime) == ["name256.test256"])
  }

  /// The domain of the dead names, or `own` if each has its own; and for how many milliseconds getaddrinfo(3) tries.
  @Test(arguments: ["dead.test", "own"], [10_000, 30_000] as [Int64])
  func `Three dead names a second do not delay a healthy name`(domain: String, patience: Int64) {
    var schedule = LookUpSchedule(maximumThreads: 256)
    var ends: [(time: Int64, query: HostQuery)] = []
    var healthy: Set<String> = []
    var most = 0
    for time in stride(from: 0, to: 2 * patience, by: 10) {
      if time % 330 == 0 {
        let name = domain == "own" ? "dead\(time).test\(time)" : "dead\(time).\(domain)"
        for family in AddressFamily.allCases { schedule.ask(Self.query(name, family)) }
      }
      if time % 100 == 50 {
        healthy.insert("healthy\(time).example")
        schedule.ask(Self.query("healthy\(time).example"))
      }
      for end in ends where end.time == time { schedule.finished(end.query) }
      ends.removeAll { $0.time == time }
      while case .begin(let query) = schedule.next(at: time * Self.millisecond) {
        let isHealthy = healthy.remove(query.name) != nil
        ends.append((time + (isHealthy ? 20 : patience), query))
      }
      most = max(most, ends.count)
      if !healthy.isEmpty {
        Issue.record("at \(time) ms: \(healthy) has to wait")
        return
      }
    }
    #expect(most > 50 && most <= 256)
  }

  @Test func `The names of one domain take half of the threads at most`() {
    var schedule = LookUpSchedule(maximumThreads: 256)
    var now: Int64 = 0
    // The domains get half of what is free, one after the other, and the last thread is for a domain that has no thread.
    for (number, expected) in [128, 64, 32, 16, 8, 4, 2].enumerated() {
      for name in 0..<500 { schedule.ask(Self.query("host\(name).dead.example\(number)")) }
      let begun = Self.beginAll(&schedule, from: &now)
      #expect(begun == expected, "domain \(number)")
    }
    schedule.ask(Self.query("www.healthy.example"))
    now += LookUpSchedule.promptTime
    #expect(Self.begin(&schedule, at: now) == ["www.healthy.example"])
  }

  @Test func `The domains take turns`() {
    var schedule = LookUpSchedule(maximumThreads: 8)
    for name in ["a.one.test", "b.one.test", "c.one.test", "a.two.test", "b.two.test", "a.three.test"] {
      schedule.ask(Self.query(name))
    }
    #expect(
      Self.begin(&schedule, at: 0) == [
        "a.one.test", "a.two.test", "a.three.test", "b.one.test", "b.two.test", "c.one.test",
      ])
  }

  @Test func `Without a thread, a look-up waits for another one to end, or fails if no other one runs`() {
    var schedule = LookUpSchedule(maximumThreads: 8)
    schedule.ask(Self.query("a"))
    #expect(Self.begin(&schedule, at: 0) == ["a"])
    schedule.ask(Self.query("b"))
    #expect(schedule.next(at: 0) == .begin(Self.query("b")))
    let mayWait = schedule.foundNoThread(for: Self.query("b"))
    #expect(mayWait)
    #expect(schedule.next(at: 0) == .wait(until: nil))
    schedule.finished(Self.query("a"))
    #expect(schedule.next(at: 0) == .begin(Self.query("b")))
    let mayWaitAlone = schedule.foundNoThread(for: Self.query("b"))
    #expect(!mayWaitAlone)
    #expect(schedule.next(at: 0) == .wait(until: nil))
  }

  @Test(arguments: 0..<200)
  func `Whatever callers and servers do, every look-up that is wanted begins once, within the limits`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    let threads = Int.random(in: 1...20, using: &random)
    var schedule = LookUpSchedule(maximumThreads: threads)
    var (wanted, running): (Set<HostQuery>, [HostQuery: (since: Int64, isLeft: Bool)]) = ([], [:])
    var now: Int64 = 0
    func begin() {
      while case .begin(let query) = schedule.next(at: now) {
        #expect(wanted.remove(query) != nil && running[query] == nil, "seed \(seed): \(query.name)")
        running[query] = (now, false)
        let prompt = running.values.filter { !$0.isLeft && now - $0.since < LookUpSchedule.promptTime }
        #expect(running.count <= threads && prompt.count <= LookUpSchedule.promptThreads, "seed \(seed)")
      }
    }
    for _ in 0..<500 {
      let number = Int.random(in: 0..<60, using: &random)
      let query = Self.query("name\(number).domain\(number % 5).test", number % 2 == 0 ? .ipv4 : .ipv6)
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        schedule.ask(query)
        if running[query] == nil { wanted.insert(query) }
      case 2:
        schedule.leave(query)
        wanted.remove(query)
        running[query]?.isLeft = true
      case 3:
        guard let query = running.keys.sorted(by: { $0.name < $1.name }).randomElement(using: &random) else { continue }
        running[query] = nil
        schedule.finished(query)
      default: now += Int64.random(in: 0...LookUpSchedule.promptTime, using: &random)
      }
      begin()
    }
    while !wanted.isEmpty || !running.isEmpty {
      guard let query = running.keys.first else { break }
      running[query] = nil
      schedule.finished(query)
      begin()
    }
    #expect(wanted.isEmpty && running.isEmpty, "seed \(seed)")
  }
}
