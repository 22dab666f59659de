import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

/// Calls that events resume run after the events, so that the processor's cache serves many receives and then the code of many calls.
///
/// No result here is a measured time. Where the loop has to run out of time, calls spin by the clock.
@Suite(.endsInTime) struct ResumedCallTests {
  private enum Step: Hashable {
    case event(Int)
    case call(Int)
    case deadline
  }

  /// An actor whose call waits for an event of its socket.
  private actor Caller: EventHandler {
    nonisolated let executor: ReactorExecutor
    private let registration: Registration
    private let number: Int
    private let steps: Notes<Step>
    private var suspension: Suspension?
    private(set) var isReady = false

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
      isReady = true
      guard readiness.contains(.readable) else { return }
      steps.add(.event(number))
      suspension?.resume()
    }

    func arm(at time: Int64) { _ = registration.arm(at: time, tag: DeadlineTag(kind: 0, id: 0)) }
    func deadlineReached(_ tag: DeadlineTag) { steps.add(.deadline) }
    func reactorShutDown() {}
  }

  private struct Scene {
    let reactor = Reactor()
    let steps = Notes<Step>()
    private(set) var callers: [Caller] = []
    private(set) var peers: [RawSocket] = []
    private(set) var calls: [Task<Void, Never>] = []

    /// `body` is what each call does when it continues.
    init(callers count: Int, _ body: @escaping @Sendable (Int) -> Void = { _ in }) async throws {
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

  @Test func `A call waits for the events of few other sockets`() async throws {
    let scene = try await Scene(callers: 100)
    scene.makeReadable()
    let eventsBefore = await scene.end().firstIndex(of: .call(0))
    #expect(try #require(eventsBefore) <= 32)
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
    let most = Dictionary(grouping: iterations.all, by: \.self).values.map(\.count).max()
    #expect(try #require(most) <= 4, "so many calls ran in an iteration")
    #expect(try #require(steps.firstIndex(of: .deadline)) < #require(steps.firstIndex(of: .call(count / 2))))
    #expect(steps.filter { if case .call = $0 { true } else { false } } == (0..<count).map { .call($0) })
  }

  @Test func `Calls that an iteration leaves come before later events`() async throws {
    let count = 20
    let extra = Locked<RawSocket?>(nil)
    let scene = try await Scene(callers: count + 1) { _ in
      spin(for: 500_000)
      if let peer = extra.withLock({ $0.take() }) { try? peer.send([1]) }
    }
    extra.withLock { $0 = scene.peers[count] }
    scene.reactor.submit { [peers = scene.peers] in for peer in peers.dropLast() { try? peer.send([1]) } }
    let steps = await scene.end()
    let events = steps.filter { if case .event = $0 { true } else { false } }
    #expect(events == (0...count).map { .event($0) })
    // The socket became readable during the first call.
    #expect(steps.suffix(2) == [.event(count), .call(count)])
  }
}
