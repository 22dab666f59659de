// What the programs of a simulation leave when they end, as far as only the simulation knows it: tasks.
//
// Nothing says when a task ends. Two facts stand for it:
// - A task that sleeps runs again only if something resumes it, and then it is added to the schedule. So a task sleeps from the time when
//   it asks for a timer until it is added. The timer of a sleep that was cancelled stays in the schedule, and is not a task that sleeps.
// - Each program has a mark, a task-local value. `Task.init` copies the values of the task that calls it, and a task releases its values
//   when it ends. So references to the mark, other than the ones of the list and of the program itself, are tasks that have not ended.
//   Tasks of a task group end before the one that made the group; `Task.detached` copies nothing, so its tasks count only while they sleep.

final class ProgramMark: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `owner` and `kind` never change. The rest is used by the simulation's thread only.

  enum Kind {
    /// The body of the simulation.
    case body
    /// By `SimulatedHost.run`.
    case run
    /// By `SimulatedHost.start`.
    case start
  }

  let kind: Kind
  let owner: HostLife
  var hasEnded = false

  @TaskLocal static var current: ProgramMark?

  /// Not the mark itself: a reference to it would count as one of a task.
  @inline(never)
  static var currentID: ObjectIdentifier? { current.map { ObjectIdentifier($0) } }

  init(_ kind: Kind, of owner: HostLife) {
    self.kind = kind
    self.owner = owner
  }
}

struct ProgramRemains {
  /// In the order of their starts.
  private var programs: [ProgramMark] = []
  /// With this many programs, those without tasks are removed before another is added.
  private var limit = 64
  private var sleeping: [UInt64: Sleep] = [:]

  struct Sleep {
    let end: SleepEnd
    let owner: HostLife
  }

  // MARK: Events

  mutating func starts(_ mark: ProgramMark) {
    if programs.count >= limit {
      removeFinished()
      limit = max(64, 2 * programs.count)
    }
    programs.append(mark)
  }

  mutating func fallsAsleep(_ task: UInt64, until end: SleepEnd, of owner: HostLife) {
    sleeping[task] = Sleep(end: end, owner: owner)
  }

  mutating func wakes(_ task: UInt64) { if !sleeping.isEmpty { sleeping[task] = nil } }

  // MARK: Leftovers

  struct Left {
    let mark: ProgramMark
    let isRunning: Bool
    /// The other tasks that the program has started and that have not ended.
    let tasks: Int
  }

  mutating func left() -> [Left] {
    removeFinished()
    let counts = references()
    return zip(programs, counts).map { mark, count in
      // A program itself has a reference while it runs.
      Left(mark: mark, isRunning: !mark.hasEnded, tasks: max(0, count - (mark.hasEnded ? 0 : 1)))
    }
  }

  /// The references to each program, without those of the list.
  private mutating func references() -> [Int] {
    // The compiler decides how many references this code itself has, so it also counts those to a mark that only the list has.
    programs.append(ProgramMark(.body, of: HostLife(host: 0, life: 0)))
    var counts: [Int] = []
    for index in programs.indices { counts.append(Self.count(of: programs[index])) }
    programs.removeLast()
    let own = counts.removeLast()
    return counts.map { $0 - own }
  }

  var sleeps: [Sleep] { sleeping.sorted { $0.key < $1.key }.map(\.value) }

  private mutating func removeFinished() {
    var kept: [ProgramMark] = []
    for index in programs.indices where !programs[index].hasEnded || !isKnownUniquelyReferenced(&programs[index]) {
      kept.append(programs[index])
    }
    programs = kept
  }

  @inline(never)
  private static func count(of mark: ProgramMark) -> Int { Int(_getRetainCount(mark)) }
}
