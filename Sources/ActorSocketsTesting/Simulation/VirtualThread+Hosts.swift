internal import EpollReactor
internal import SocketSystem

extension VirtualThread {
  /// Adds the host if the name is new.
  func host(named name: String) -> Int {
    if let number = network.host(named: name) { return number }
    clocks.append(HostClock(timeOfDayAtZero: clocks[0].timeOfDayAtZero))
    hosts.append(VirtualHost(name))
    trace.hosts.append(name)
    happened(.host(name))
    outside.addHost(name)
    return network.addHost(name)
  }

  /// `onCrash` is called once if the host crashes before the program ends, or at once if it is down. `make` creates the task of the
  /// program, which calls `ends` when it has ended.
  func launch(
    _ kind: ProgramMark.Kind, on host: Int, onCrash: @escaping () -> Void,
    _ make: (_ ends: @escaping @Sendable () -> Void) -> Void
  ) {
    if hosts[host].state == .crashed { return onCrash() }
    let key = hosts[host].onCrash(onCrash)
    onBehalf(of: host) {
      withMark(ofProgram: kind) { mark in
        make { [weak self, weak mark] in
          // Called by the program's task, so on this thread.
          self?.hosts[host].crashHandlers[key] = nil
          mark?.hasEnded = true
        }
      }
    }
  }

  /// With `keepsKernel`, the kernel closes the host's sockets, as it does for a process that was killed. Otherwise the peers get no packet.
  func crash(_ host: Int, keepsKernel: Bool) {
    if hosts[host].state == .crashed || !canStopTasks { return }
    noteCondition(keepsKernel ? .killed : .withoutPower, "crashes", of: host)
    let held = hosts[host].held
    hosts[host].held = []
    for task in hosts[host].parked { Self.abandon(task) }
    hosts[host].parked = []
    hosts[host].state = .crashed
    hosts[host].life += 1
    for work in held { abandon(work) }
    if keepsKernel { network.closeAll(of: host) } else { network.stop(host) }
    // Not before: the sockets that it frees must not send anything to their peers.
    hosts[host].reactor = nil
    crashStorage(of: host, keepsKernel ? .process : .power)
    let handlers = hosts[host].crashHandlers
    hosts[host].crashHandlers = [:]
    for (_, handler) in handlers.sorted(by: { $0.key < $1.key }) { handler() }
  }

  func restart(_ host: Int) {
    guard hosts[host].state == .crashed else { return }
    noteCondition(.running, "restarts", of: host)
    hosts[host].state = .running
    network.start(host)
    runProgram(of: host)
  }

  func runProgram(of host: Int) {
    guard let program = hosts[host].program else { return }
    launch(.start, on: host) {
    } _: { ends in
      Task {
        defer { ends() }
        do {
          try await program()
        } catch {
          if !(error is CancellationError) { VirtualThread.current?.programFailed(error) }
        }
      }
    }
  }

  /// Nothing runs on the host until `resume`, except for its kernel.
  func pause(_ host: Int) {
    // At the end, every task shall see its cancellation.
    guard hosts[host].state == .running, !hasEnded, canStopTasks else { return }
    noteCondition(.paused, "is paused", of: host)
    hosts[host].state = .paused
  }

  func resume(_ host: Int) {
    guard hosts[host].state == .paused else { return }
    noteCondition(.running, "continues", of: host)
    hosts[host].state = .running
    let (held, parked) = (hosts[host].held, hosts[host].parked)
    (hosts[host].held, hosts[host].parked) = ([], [])
    for work in held { schedule.add(work) }
    for driver in drivers where driver.owner.host == host && isAlive(driver.owner) { scheduleReactor(driver) }
    for task in parked { VirtualExecutors.unpark(task) }
  }

  /// The work belongs to a host that has crashed or is paused.
  func stop(_ work: Work) {
    if case .reactor(let driver) = work.kind {
      letActorsRun(on: driver)
    } else if isAlive(work.owner) {
      hosts[work.owner.host].held.append(work)
    } else {
      abandon(work)
    }
  }

  /// Whether the task must not run now. The runtime asks before each run, also within a default actor.
  func mustStop(_ task: UInt64) -> Bool {
    guard let owner = owner(of: task) else { return false }
    return !isAlive(owner) || hosts[owner.host].state == .paused
  }

  /// Whether hosts can crash and pause; otherwise the simulation fails.
  private var canStopTasks: Bool {
    if VirtualClock.seesTasks { return true }
    programFailed(
      SimulationError(
        .unsupported, "\(place): hosts cannot crash or pause in a program that contains Swift's runtime", at: elapsed))
    return false
  }

  /// The task was about to run, and is suspended now. It continues when its host does.
  func parked(_ task: UnownedJob) {
    guard let owner = owners.owner(of: VirtualClock.taskNumber(of: task)), isAlive(owner) else {
      return Self.abandon(task)
    }
    hosts[owner.host].parked.append(task)
  }
}
