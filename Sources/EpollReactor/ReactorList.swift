// The reactors of the process, for those who look inside, in the order in which they were made.
//
// Invariants:
// - A reactor is in the list from the end of its `init` to its `deinit`. The list holds its loop, and not the reactor: a weak reference to
//   a reactor would make each use of it dearer, 200 instructions of an answer.
// - The lock is taken only when a reactor begins or ends, and when someone asks for the list.
// - A simulation's reactor is seen only by code that the same simulated host runs, and that code sees no other reactor.

internal import SocketSystem
internal import Synchronization

/// A reactor that may be looked into. Its last reference may be dropped meanwhile.
package final class ListedReactor: Sendable {
  /// Counted from 1 among the reactors of the process, or of a simulated host. A number is used again when all higher ones have ended.
  package let number: Int
  /// Whether it is the reactor that sockets use by default.
  package let isShared: Bool
  private let loop: EventLoop
  private let firstQuestion = Atomic<Int64>(0)

  init(_ loop: EventLoop, number: Int, isShared: Bool) {
    self.loop = loop
    self.number = number
    self.isShared = isShared
  }

  package func isOf(_ loop: EventLoop) -> Bool { self.loop === loop }

  /// Whether one may look into the other.
  func isRelated(to host: LoopHost) -> Bool {
    guard let driver = host.driver else { return loop.host.driver == nil }
    return loop.host.driver?.isOfHost(of: driver) ?? false
  }

  /// Whether a driver runs it, as in a simulation. Its metrics are of the real clock nevertheless, and differ in each run.
  package var hasDriver: Bool { loop.host.driver != nil }

  package var metrics: Reactor.Metrics { loop.metrics.read() }

  /// How many jobs wait for the thread, without those that it has already taken from the queue.
  package var queuedJobs: Int { loop.jobs.count }

  /// How long the current job, call or event has run; `nil` while the thread waits for events.
  package var runningJob: Duration? { loop.metrics.runningJob.map { .nanoseconds($0) } }

  // MARK: Questions

  /// When a question was asked that still waits, whoever asked it. It is the first one, unless several waited at the same time, and an
  /// earlier one was answered: then it may be `nil` although a question waits.
  package var waitsSince: Int64? {
    let time = firstQuestion.load(ordering: .relaxed)
    return time == 0 ? nil : time
  }

  /// Shows at most `most` slots of the table on the reactor's thread, those that are empty included, and gives `done` the slot to continue
  /// from; `nil` at the end. A socket that is in the table all the time is shown exactly once, because it keeps its slot.
  ///
  /// Returns `false`, and does nothing, if the reactor has ended.
  package func visitTable<Shown: Sendable>(
    from slot: Int, most: Int, askedAt now: Int64,
    _ show: @escaping @Sendable (Registration, any EventHandler) -> Shown?,
    done: @escaping @Sendable ([Shown], _ next: Int?) -> Void
  ) -> Bool {
    _ = firstQuestion.compareExchange(expected: 0, desired: max(1, now), ordering: .relaxed)
    let isAsked = loop.jobs.pushUnlessStopped(
      .call(
        { [loop] in
          self.firstQuestion.store(0, ordering: .relaxed)
          let (registrations, next) = loop.registrations.portion(from: slot, most: most)
          done(registrations.compactMap { $0.shown(by: show) }, next)
        }, of: nil))
    if !isAsked { firstQuestion.store(0, ordering: .relaxed) }
    return isAsked
  }
}

enum ReactorList {
  private static let entries = Locked<[ListedReactor]>([])

  static func add(_ loop: EventLoop, isShared: Bool) {
    entries.withLock { entries in
      let last = entries.last { $0.isRelated(to: loop.host) }?.number ?? 0
      entries.append(ListedReactor(loop, number: last + 1, isShared: isShared))
    }
  }

  static func remove(_ loop: EventLoop) { entries.withLock { $0.removeAll { $0.isOf(loop) } } }

  static func related(to host: LoopHost) -> [ListedReactor] {
    entries.withLock { $0.filter { $0.isRelated(to: host) } }
  }
}

extension Reactor {
  /// The other reactors that this one may look into: those of the process, or those of the same simulated host.
  package var related: [ListedReactor] { ReactorList.related(to: loop.host).filter { !$0.isOf(loop) } }

  package var hasDriver: Bool { loop.host.driver != nil }
}
