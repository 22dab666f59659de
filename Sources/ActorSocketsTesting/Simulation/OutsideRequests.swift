internal import SocketSystem
internal import Synchronization

/// What other threads ask of a simulation: to run work, and to cancel its program.
final class OutsideRequests: Sendable {
  /// `nil` after the end of the simulation.
  private let work = Locked<[VirtualThread.Kind]?>([])
  private let hasWork = Atomic<Bool>(false)
  /// The runtime's numbers of the simulation's tasks that have not ended. Another thread that resumes one of them sends it back to the simulation.
  private let tasks = Locked<Set<UInt64>>([])
  private let cancellation = Atomic<Bool>(false)
  private let helpers = Locked<Set<Helper>>([])
  private let names = Locked<[String]>([VirtualThread.ownHost])

  // MARK: Any thread

  /// Returns `false` after the end of the simulation.
  @discardableResult
  func add(_ kind: VirtualThread.Kind) -> Bool {
    let isOpen = work.withLock { work in
      work?.append(kind)
      return work != nil
    }
    hasWork.store(true, ordering: .releasing)
    return isOpen
  }

  /// Takes a job of a task that another thread adds. Returns `false` if the task does not belong to the simulation, or after its end.
  func takeBack(_ kind: VirtualThread.Kind, of task: UInt64) -> Bool {
    if !tasks.withLock({ $0.contains(task) }) || !add(kind) { return false }
    used(.outside)
    return true
  }

  func used(_ helper: Helper) { helpers.withLock { _ = $0.insert(helper) } }

  /// One for each helper that the program has used.
  var sentences: [String] { helpers.withLock { $0.sorted { $0.rawValue < $1.rawValue }.map(\.sentence) } }

  func name(of host: Int) -> String { names.withLock { $0[host] } }

  func cancel() { cancellation.store(true, ordering: .releasing) }

  // MARK: The simulation's thread

  var isCancelled: Bool { cancellation.load(ordering: .acquiring) }

  func addHost(_ name: String) { names.withLock { $0.append(name) } }

  func begins(_ task: UInt64) { tasks.withLock { _ = $0.insert(task) } }

  func ended(_ ended: [UInt64]) { tasks.withLock { $0.subtract(ended) } }

  func takeWork() -> [VirtualThread.Kind] {
    if !hasWork.exchange(false, ordering: .acquiring) { return [] }
    return work.withLock { work in
      defer { work = [] }
      return work ?? []
    }
  }

  func end() { work.withLock { $0 = nil } }
}
