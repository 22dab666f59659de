internal import EpollReactor
internal import SocketSystem

final class VirtualDriver: LoopDriver, @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `thread` and `owner` never change. The rest is the state of that thread.
  private(set) weak var thread: VirtualThread?
  let owner: HostLife
  /// `nil` before the loop began, and after its end.
  private(set) weak var loop: EventLoop?
  var isScheduled = false
  var hasBegun = false
  /// The reactor's next deadline.
  var timer: TimerQueue<VirtualThread.Work>.Key?

  init(_ thread: VirtualThread, _ owner: HostLife) {
    self.thread = thread
    self.owner = owner
  }

  func isOfHost(of other: any LoopDriver) -> Bool {
    guard let thread, let other = other as? VirtualDriver else { return false }
    return other.thread === thread && other.owner == owner
  }

  func drives(_ loop: EventLoop) { self.loop = loop }

  var now: Int64 {
    // Another thread is in real time.
    guard let thread, VirtualThread.current === thread else { return continuousNanoseconds() }
    return thread.now(on: owner.host)
  }

  func wake() { thread?.wakeReactor(self) }

  func runOnWorkers(_ job: UnownedJob) {
    guard let thread else { return WorkerPool.shared.add([job]) }
    if thread.add(.worker(job)) { return }
    // The pool may start a worker for the job. It must not start one in the simulation.
    thread.leave { WorkerPool.shared.add([job]) }
  }

  var defaultReactor: Reactor? { thread?.defaultReactor }
  var driverOfNewReactor: (any LoopDriver)? { thread?.makeDriver() }

  func shutDown() {
    guard let loop else { return }
    loop.submit { loop.shutDown() }
  }
}
