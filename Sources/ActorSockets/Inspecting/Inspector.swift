// Asks the reactors of the process what they hold, a portion of each table at a time.
//
// Invariants:
// - The inspector has a reactor of its own, and its calls run nowhere else. So it answers while other reactors and all threads of Swift's
//   pool are blocked. It does not show its own reactor.
// - A question is one job in the queue of the reactor that is asked. It looks at `Inspection.portion` slots, so other work runs between two
//   questions.
// - Each question has one outcome for its caller: an answer, silence after `Inspection.patience`, or the cancellation.
// - While a question to a reactor is known to be overdue, whoever asked it, the reactor gets no further question: it is reported as silent at
//   once. So the queue of a blocked reactor grows by the questions of a second, and by as many reports as ran at the same time before.
// - A question keeps neither the inspector nor its reactor. A report keeps the loops of the reactors that it shows, at most for the time that
//   its client has, but not the reactors.
// - A report holds at most one portion at a time.

internal import EpollReactor
internal import SocketSystem

actor Inspector: ReactorActor {
  nonisolated let executor: ReactorExecutor
  private nonisolated let registration: Registration
  private var waiters = Waiters<Answer>()
  private var deadlines: [UInt64: DeadlineKey] = [:]

  enum Answer: Sendable {
    case lines([JSON], next: Int?)
    /// For this number of nanoseconds.
    case silent(Int64)
  }

  /// Throws the error of `Reactor.start`.
  init() throws {
    registration = Registration(on: try Reactor.start())
    executor = registration
    submit { $0.enter($0.registration) }
  }

  deinit {
    registration.reactor.submit { [registration] in registration.leave() }
  }

  // MARK: A report

  /// On the reactor's clock, in nanoseconds.
  nonisolated var now: Int64 { executor.reactor.now }
  nonisolated var newWalk: InspectionWalk<ListedReactor> { InspectionWalk(executor.reactor.related) }

  /// Returns the next lines and the walk after them; `nil` after the end. The caller asks again when it has passed these on, so a slow reader
  /// slows the report down.
  func lines(_ walk: InspectionWalk<ListedReactor>) async throws -> (
    lines: [UInt8], walk: InspectionWalk<ListedReactor>
  )? {
    var walk = walk
    var lines: [JSON] = []
    while lines.isEmpty, let step = walk.step() {
      switch step {
      case .begin: lines = [firstLine]
      case .announce(let listed): lines = [Self.line(about: listed)]
      case .ask(let listed, let slot):
        switch try await ask(listed, from: slot) {
        case .lines(let answer, let next):
          walk.answered(answer.count, next: next)
          lines = answer
        case .silent(let nanoseconds):
          walk.wasSilent()
          lines = [Self.line(about: listed, silentFor: nanoseconds)]
        }
      case .end(let sockets, let isComplete):
        lines = [.object([("type", .string("end")), ("complete", .bool(isComplete)), ("sockets", .number(sockets))])]
      }
    }
    if lines.isEmpty { return nil }
    var bytes: [UInt8] = []
    for line in lines {
      line.append(to: &bytes)
      bytes.append(UInt8(ascii: "\n"))
    }
    return (bytes, walk)
  }

  private var firstLine: JSON {
    // In a simulation, each run has the same lines.
    let hasDriver = executor.reactor.hasDriver
    let time = hasDriver ? registration.reactor.now : realtimeNanoseconds()
    return .object([
      ("type", .string("process")), ("format", .number(Inspection.format)),
      ("pid", hasDriver ? .null : .number(Int(CurrentProcess.id))), ("time", .seconds(.nanoseconds(time))),
    ])
  }

  private static func line(about listed: ListedReactor) -> JSON {
    var members: [(name: String, value: JSON)] = [
      ("type", .string("reactor")), ("reactor", .number(listed.number)), ("shared", .bool(listed.isShared)),
      ("queued", .number(listed.queuedJobs)),
    ]
    if !listed.hasDriver {
      let metrics = listed.metrics
      members += [
        ("running", JSON(listed.runningJob)), ("lag", .seconds(metrics.lag)), ("jobs", .number(metrics.jobs)),
        ("polls", .number(metrics.polls)), ("longestJob", .seconds(metrics.longestJob)),
        ("longestIteration", .seconds(metrics.longestIteration)),
      ]
    }
    return .object(members)
  }

  private static func line(about listed: ListedReactor, silentFor nanoseconds: Int64) -> JSON {
    .object([
      ("type", .string("silent")), ("reactor", .number(listed.number)), ("waited", .seconds(.nanoseconds(nanoseconds))),
      ("running", JSON(listed.runningJob)),
    ])
  }

  // MARK: Questions

  private func ask(_ listed: ListedReactor, from slot: Int) async throws -> Answer {
    try Task.checkCancellation()
    let now = registration.reactor.now
    let patience = Inspection.patience.clampedNanoseconds
    if let since = listed.waitsSince, now - since >= patience { return .silent(now - since) }
    let waiter = waiters.add(claimPlaceNow())
    let id = waiter.id
    let isAsked = listed.visitTable(from: slot, most: Inspection.portion, askedAt: now) { registration, handler in
      registration.inspectedLine(handler, reactor: listed.number)
    } done: { [weak self] lines, next in
      self?.submit { $0.finish(id, .lines(lines, next: next)) }
    }
    if !isAsked {
      // It has no sockets any more, because each of them would keep it.
      waiters.remove(id)?.resume(.success(.lines([], next: nil)))
    } else {
      deadlines[id] = registration.arm(at: instant(now, plus: patience), tag: DeadlineTag(.answer, id))
    }
    await wait(for: waiter.suspension) { submit { $0.finish(id, nil) } }
    return try waiter.result()
  }

  /// `nil`: the task was cancelled. An answer that comes after another outcome is dropped.
  private func finish(_ id: UInt64, _ answer: Answer?) {
    if let deadline = deadlines.removeValue(forKey: id) { registration.disarm(deadline) }
    waiters.remove(id)?.resume(answer.map { .success($0) } ?? .failure(CancellationError()))
  }
}

extension Inspector: EventHandler {
  package func handle(_ readiness: Readiness) {}

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .answer:
      deadlines[tag.id] = nil
      finish(tag.id, .silent(Inspection.patience.clampedNanoseconds))
    default: tag.isUnexpected(by: Self.self)
    }
  }

  package func reactorShutDown() {
    deadlines = [:]
    waiters.resumeAll(.failure(SocketError(.reactorShutDown, operation: "inspect")))
  }
}
