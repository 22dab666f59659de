import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

/// Calls that events resume run together after the events: see EventLoop.swift.
///
/// No result here is a measured time. Where the loop has to run out of time, calls spin by the clock.
@Suite(.endsInTime) struct ResumedCallTests {
  private enum Step: Hashable {
    case event(Int)
    case call(Int)
    case send(Int)
    case deadline
  }

  private final class Sender: GatheredSender {
    private let number: Int
    private let steps: Notes<Step>
    private let nanoseconds: Int64

    init(_ number: Int, _ steps: Notes<Step>, spinningFor nanoseconds: Int64 = 0) {
      self.number = number
      self.steps = steps
      self.nanoseconds = nanoseconds
    }

    func sendGathered() {
      spin(for: nanoseconds)
      steps.add(.send(number))
    }

    /// On the reactor's thread.
    func ask() { EventLoop.current?.running.sends.add(GatheredSend(sender: self, owner: self)) }
  }

  /// An actor whose call waits for an event of its socket.
  private actor Caller: EventHandler {
    nonisolated let executor: ReactorExecutor
    private let registration: Registration
    private let number: Int
    private let steps: Notes<Step>
    private var suspension: Suspension?
    private(set) var isReady = false
    /// What an event receives.
    var bytes = 0
    func receive(_ bytes: Int) { self.bytes = bytes }

    init(_ number: Int, _ steps: Notes<Step>, on reactor: Reactor) {
      executor = ReactorExecutor(reactor)
      registration = Registration(on: reactor)
      self.number = number
      self.steps = steps
    }

    deinit { registration.reactor.submit { [registration] in registration.leave() } }

    func attach(_ socket: RawSocket) throws {
      try registration.enter(self)
      try registration.attach(OwnedDescriptor(owning: socket.release()))
    }

    func waitForEvent(_ body: @Sendable () -> Void) async {
      let suspension = Suspension(claimPlaceNow())
      self.suspension = suspension
      await suspension.suspend()
      steps.add(.call(number))
      body()
    }

    var isWaiting: Bool { suspension != nil && isReady }

    func handle(_ readiness: Readiness) {
      if readiness.rawValue == 0 {
        suspension?.resume()
        return
      }
      isReady = true
      guard readiness.contains(.readable) else { return }
      steps.add(.event(number))
      registration.received(bytes)
      suspension.take()?.resume()
    }

    func enter() throws { try registration.enter(self) }
    var hasSuspension: Bool { suspension != nil }

    /// Each turn resumes the call.
    func takeTurns(while body: @Sendable () -> Bool) async {
      repeat {
        let suspension = Suspension(claimPlaceNow())
        self.suspension = suspension
        registration.reschedule()
        await suspension.suspend()
      } while body()
    }

    func waitForDeadline(at time: Int64) async {
      arm(at: time)
      await waitForEvent {}
    }

    func arm(at time: Int64) { _ = registration.arm(at: time, tag: DeadlineTag(kind: 0, id: 0)) }

    func deadlineReached(_ tag: DeadlineTag) {
      steps.add(.deadline)
      // The call of another test goes on when its event comes.
      if !isReady { suspension?.resume() }
    }

    func reactorShutDown() {}
  }

  private struct Scene {
    let reactor = Reactor()
    let steps: Notes<Step>
    private(set) var callers: [Caller] = []
    private(set) var peers: [RawSocket] = []
    private(set) var calls: [Task<Void, Never>] = []

    /// `body` is what each call does when it continues.
    init(callers count: Int, _ steps: Notes<Step> = Notes(), _ body: @escaping @Sendable (Int) -> Void = { _ in })
      async throws
    {
      self.steps = steps
      for number in 0..<count {
        let (near, far) = try RawSocket.unixPair()
        let caller = Caller(number, steps, on: reactor)
        try await caller.attach(near)
        calls.append(Task(executorPreference: reactor) { await caller.waitForEvent { body(number) } })
        try await eventually("the call waits, and the socket's first event has come") { await caller.isWaiting }
        callers.append(caller)
        peers.append(far)
      }
    }

    /// All sockets become readable while the reactor is held up.
    func makeReadable() {
      reactor.submit { [peers] in for peer in peers { try? peer.send([1]) } }
    }

    func end() async -> [Step] {
      for call in calls { await call.value }
      return steps.all
    }
  }

  @Test func `Calls run after the events that resumed them and others, in the order of the events`() async throws {
    let count = 64
    let scene = try await Scene(callers: count)
    scene.makeReadable()
    let steps = await scene.end()
    #expect(steps.filter { if case .call = $0 { true } else { false } } == (0..<count).map { .call($0) })
    for number in 0..<count {
      #expect(try #require(steps.firstIndex(of: .event(number))) < #require(steps.firstIndex(of: .call(number))))
    }
    // Two are expected. On a slow machine a poll fetches fewer events.
    let turns = zip(steps, steps.dropFirst()).count { before, after in
      if case (.event, .call) = (before, after) { true } else { false }
    }
    #expect(turns < count / 2, "the loop went over from events to calls \(turns) times")
  }

  @Test func `A call runs directly after its event if that has received many bytes`() async throws {
    let scene = try await Scene(callers: 20)
    for caller in scene.callers { await caller.receive(65_536) }
    scene.makeReadable()
    #expect(await scene.end() == (0..<20).flatMap { [.event($0), .call($0)] })
  }

  @Test func `A call waits for the events of few other sockets`() async throws {
    let scene = try await Scene(callers: 100)
    scene.makeReadable()
    let eventsBefore = await scene.end().firstIndex(of: .call(0))
    #expect(try #require(eventsBefore) <= 32)
  }

  @Test func `What calls ask to send goes out after the calls of a batch, in the order of the calls`() async throws {
    let count = 64
    let steps = Notes<Step>()
    let scene = try await Scene(callers: count, steps) { Sender($0, steps).ask() }
    scene.makeReadable()
    _ = await scene.end()
    try await eventually("everything is sent") { steps.all.count == 3 * count }
    let sends = steps.all.filter { if case .send = $0 { true } else { false } }
    #expect(sends == (0..<count).map { .send($0) })
    let turns = zip(steps.all, steps.all.dropFirst()).count { before, after in
      if case (.call, .send) = (before, after) { true } else { false }
    }
    #expect(turns < count / 2, "the loop went over from calls to sends \(turns) times")
    let isEvent: (Step) -> Bool = { if case .event = $0 { true } else { false } }
    let last = try #require(steps.all.lastIndex(where: isEvent))
    #expect(try #require(steps.all.firstIndex(of: .send(0))) < last, "the first send waits for all events")
  }

  @Test func `Slow sends keep their order, the loop does not sleep before the last one, and events come between them`()
    async throws
  {
    let scene = try await Scene(callers: 1)
    let count = 30
    scene.reactor.submit { [steps = scene.steps, peers = scene.peers] in
      for number in 0..<count { Sender(number, steps, spinningFor: 500_000).ask() }
      try? peers[0].send([1])
    }
    try await eventually("everything is sent") { scene.steps.all.count == count + 2 }
    #expect(scene.steps.all.filter { if case .send = $0 { true } else { false } } == (0..<count).map { .send($0) })
    #expect(try #require(scene.steps.all.firstIndex(of: .event(0))) < count / 2)
    _ = await scene.end()
  }

  @Test func `Few calls run in an iteration if they take long, and a deadline comes between them`() async throws {
    let count = 30
    let iterations = Notes<Int>()
    let scene = try await Scene(callers: count) { _ in
      spin(for: 500_000)
      if let loop = EventLoop.current { iterations.add(loop.iteration.number) }
    }
    let late = scene.callers[0]
    scene.reactor.submit { [reactor = scene.reactor, peers = scene.peers] in
      late.assumeIsolated { $0.arm(at: reactor.now) }
      for peer in peers { try? peer.send([1]) }
    }
    let steps = await scene.end()
    // Two calls fill a millisecond.
    let most = try #require(Dictionary(grouping: iterations.all, by: \.self).values.map(\.count).max())
    #expect(most <= 4, "\(most) calls ran in one iteration")
    #expect(try #require(steps.firstIndex(of: .deadline)) < #require(steps.firstIndex(of: .call(count / 2))))
    #expect(steps.filter { if case .call = $0 { true } else { false } } == (0..<count).map { .call($0) })
  }

  @Test func `Sockets whose turns always resume slow calls do not keep events waiting`() async throws {
    let events = 100
    let scene = try await Scene(callers: events)
    let (ran, most) = (Locked(0), 3000)
    var loops: [Task<Void, Never>] = []
    for number in events..<events + 30 {
      let greedy = Caller(number, scene.steps, on: scene.reactor)
      try await greedy.enter()
      loops.append(
        Task(executorPreference: scene.reactor) { [peers = scene.peers, steps = scene.steps] in
          await greedy.takeTurns {
            spin(for: 500_000)
            let count = ran.withLock { ran in
              ran += 1
              return ran
            }
            if count == 100 { for peer in peers { try? peer.send([1]) } }
            let found = steps.all.count { if case .event = $0 { true } else { false } }
            return count < most && found < events
          }
        })
    }
    for loop in loops { await loop.value }
    // An iteration carries out at least 32 events, which resume calls, and runs about four calls. Then each loop makes its last turn.
    let count = ran.withLock { $0 }
    #expect(count < 250, "\(count - 100) calls ran before all events were carried out")
    for peer in scene.peers { peer.close() }
    for call in scene.calls { await call.value }
  }

  @Test func `With manual time, a call that a deadline resumes goes on before later deadlines`() async throws {
    let time = ManualTime()
    let steps = Notes<Step>()
    var calls: [Task<Void, Never>] = []
    let start = time.reactor.now
    for (number, after) in [(0, 5), (1, 5), (2, 7)] as [(Int, Int64)] {
      let caller = Caller(number, steps, on: time.reactor)
      try await caller.enter()
      calls.append(Task { await caller.waitForDeadline(at: start + after) })
      try await eventually("the call waits") { await caller.hasSuspension }
    }
    await time.advance(by: .nanoseconds(10))
    for call in calls { await call.value }
    #expect(steps.all == [0, 1, 2].flatMap { [Step.deadline, .call($0)] })
  }
}
