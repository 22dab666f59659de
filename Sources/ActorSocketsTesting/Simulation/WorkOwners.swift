/// Whose code runs on the thread of a simulation, and to which hosts its tasks belong.
struct WorkOwners {
  /// Those that have not ended, by the runtime's numbers. `order` counts the tasks as they appear.
  private var tasks: [UInt64: (order: Int, owner: HostLife)] = [:]
  private var count = 0
  /// The program's task. The runtime's numbers grow, so smaller ones belong to tasks that existed before.
  private var firstTask: UInt64?
  /// That of the work that runs.
  var running = HostLife(host: 0, life: 0)
  /// The host on whose behalf the current code acts, if not its own.
  var override: HostLife?
  /// Whether the work that runs is a job of the main actor.
  var runsMainActor = false

  var current: HostLife { override ?? VirtualClock.currentTask.flatMap { owner(of: $0) } ?? running }

  var living: Int { tasks.count }
  func owner(of task: UInt64) -> HostLife? { tasks[task]?.owner }
  func order(of task: UInt64) -> Int? { tasks[task]?.order }

  /// A new task belongs to the host whose code adds it. Returns `nil` if the task existed before the simulation.
  mutating func add(_ task: UInt64) -> HostLife? {
    let first = firstTask ?? task
    firstTask = first
    if task < first { return nil }
    let owner = current
    count += 1
    tasks[task] = (count, owner)
    return owner
  }

  mutating func ended(_ task: UInt64) { tasks[task] = nil }
}
