import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport

@testable import ActorSockets
@testable import EpollReactor

extension LimitBoundaries {
  private static let budget = "a socket's budget of an iteration, for each direction"
  private static let handover = "jobs that a reactor hands to the workers together; time for which it collects them"

  static let reactor: [LimitBoundary] = [
    .most("events fetched with one `epoll_wait`") { count in
      let (near, far) = try RawSocket.unixPair()
      try far.send([1])
      let epoll = try makePoller()
      // Each number is reported by itself.
      let readable = (0..<count).map { _ in RawSocket(owning: dup(near.number)) }
      for (index, socket) in readable.enumerated() {
        try epoll.add(socket.number, token: UInt64(index), interest: .readable)
      }
      var events = EventBuffer()
      let found = epoll.take(&events)
      withExtendedLifetime((readable, far)) {}
      return found == count
    },
    .most("scratch memory: bytes of one receive") { count in
      let (near, far) = try RawSocket.unixPair()
      let connection = try TCPConnection.adopt(fileDescriptor: near.release())
      try far.send([UInt8](repeating: 1, count: count))
      _ = try await connection.read(exactly: 1)
      // The read needed one receive.
      let received = await connection.metrics.bytesReceived
      await connection.abort()
      return received == count
    },
    .most(budget) { count in
      var budget = Budget.stream
      budget.use(operations: count - 1)
      return !budget.isSpent
    },
    .most(budget, position: 1) { count in
      var budget = Budget.stream
      budget.use(bytes: count - 1)
      return !budget.isSpent
    },
    .most("turns that a socket gets before its deadline fires") { count in
      let greedy = Greedy(Reactor(), turns: count)
      try await greedy.begin()
      try await eventually("the deadline has come") { !greedy.sharesBeforeDeadline.all.isEmpty }
      return greedy.sharesBeforeDeadline.all == [count]
    },
    .most("pieces of one gathered send; bytes after which no further write is added") { count in
      let (near, far) = try RawSocket.unixPair()
      defer { withExtendedLifetime(far) {} }
      let pieces = [[UInt8]](repeating: [1], count: count)
      guard case .bytes(let sent) = BorrowedDescriptor(near.number).send(gathering: pieces[...], skipping: 0) else {
        return false
      }
      return sent == count
    },
    .most("bytes of one `sendfile`; of one piece of a file without a socket", position: 1) { count in
      let (near, far) = wide()
      let file = try TemporaryFile([UInt8](repeating: 1, count: count))
      let steps = Notes<Int>()
      try await near.sendFile(file.source, progress: { done, _ in steps.add(done) })
      withExtendedLifetime(far) {}
      return steps.all.first { $0 > 0 } == count
    },
    .most(handover) { count in
      let collector = JobCollector()
      defer { collector.run() }
      var handover = Handover()
      handover.isCollecting = true
      // All but the last are kept.
      return collector.jobs(count - 1).allSatisfy { !handover.add($0) }
    },
    .most(handover, position: 1) { nanoseconds in
      let collector = JobCollector()
      defer { collector.run() }
      var handover = Handover()
      handover.isCollecting = true
      let isFull = handover.add(collector.jobs(1)[0])
      let isLateAtFirst = handover.jobEnds(0)
      return !isFull && !isLateAtFirst && !handover.jobEnds(Int64(nanoseconds))
    },
    .least("iteration from which an observer hears of the lag") { nanoseconds in
      let (reactor, observer) = (Reactor(), LagObserver())
      reactor.observer = observer
      reactor.loop.metrics.observer.iterationTook(Int64(nanoseconds))
      // An iteration of the reactor's own may have lagged, too.
      return observer.lags.all.contains(.nanoseconds(nanoseconds))
    },
  ]
}

/// An actor that asks for a number of turns, with a deadline that is due from the beginning.
private actor Greedy: EventHandler {
  nonisolated let executor: ReactorExecutor
  nonisolated let sharesBeforeDeadline = Notes<Int>()
  private let registration: Registration
  private let wanted: Int
  private var given = 0

  init(_ reactor: Reactor, turns: Int) {
    registration = Registration(on: reactor)
    executor = registration
    wanted = turns
  }

  deinit { registration.reactor.submit { [registration] in registration.leave() } }

  func begin() throws {
    try registration.enter(self)
    registration.reschedule()
    _ = registration.arm(at: registration.reactor.now, tag: DeadlineTag(kind: 0))
  }

  func handle(_ readiness: Readiness) {
    given += 1
    if given < wanted { registration.reschedule() }
  }

  func deadlineReached(_ tag: DeadlineTag) { sharesBeforeDeadline.add(given) }
  func reactorShutDown() {}
}

private final class JobCollector: TaskExecutor {
  private let collected = Locked<[UnownedJob]>([])

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    collected.withLock { $0.append(job) }
  }

  func jobs(_ count: Int) -> [UnownedJob] {
    for _ in 0..<count { Task(executorPreference: self) {} }
    return collected.withLock { $0 }
  }

  func run() {
    let jobs = collected.withLock { jobs in
      defer { jobs = [] }
      return jobs
    }
    // SAFETY: the runtime handed each job to `enqueue` once, and it is run once, here.
    for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}

private final class LagObserver: ReactorObserver {
  let lags = Notes<Duration>()
  func lagged(_ lag: Duration) { lags.add(lag) }
}
