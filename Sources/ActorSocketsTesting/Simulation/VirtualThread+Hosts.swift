// What the simulated program does to its hosts.

internal import EpollReactor
internal import SocketSystem

extension VirtualThread {
  /// The number of the host with a name. Adds the host if the name is new.
  func host(named name: String) -> Int {
    if let number = hosts.firstIndex(where: { $0.name == name }) { return number }
    clocks.append(HostClock(timeOfDayAtZero: clocks[0].timeOfDayAtZero))
    hosts.append(VirtualHost(name))
    trace.hosts = hosts.map(\.name)
    return network.addHost(name)
  }

  /// Starts a program on a host.
  ///
  /// - Parameters:
  ///   - kind: How the program was started.
  ///   - host: The host's number.
  ///   - onCrash: Called once if the host crashes before `ends` is called, or at once if it is down.
  ///   - make: Makes the task of the program. It is given the function to call when the program has ended.
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

  /// Stops everything on a host.
  ///
  /// - Parameters:
  ///   - host: The host's number.
  ///   - keepsKernel: Whether the host's kernel closes its sockets, as it does for a process that was killed. If not, its peers hear
  ///     nothing.
  func crash(_ host: Int, keepsKernel: Bool) {
    if hosts[host].state == .crashed { return }
    note("\(hosts[host].name) crashes")
    let held = hosts[host].held
    hosts[host].held = []
    hosts[host].state = .crashed
    hosts[host].life += 1
    for work in held { abandon(work) }
    if keepsKernel { network.closeAll(of: host) } else { network.stop(host) }
    // Not before: the sockets that it frees must say nothing to their peers.
    hosts[host].reactor = nil
    let handlers = hosts[host].crashHandlers
    hosts[host].crashHandlers = [:]
    for (_, handler) in handlers.sorted(by: { $0.key < $1.key }) { handler() }
  }

  /// Lets a host that has crashed run programs again.
  func restart(_ host: Int) {
    guard hosts[host].state == .crashed else { return }
    note("\(hosts[host].name) restarts")
    hosts[host].state = .running
    network.start(host)
    runProgram(of: host)
  }

  /// Starts the program that a host runs whenever it starts.
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

  /// Nothing runs on a host until `resume`. Its kernel goes on.
  func pause(_ host: Int) {
    if hosts[host].state == .running { hosts[host].state = .paused }
  }

  /// Lets a paused host continue.
  func resume(_ host: Int) {
    guard hosts[host].state == .paused else { return }
    hosts[host].state = .running
    let held = hosts[host].held
    hosts[host].held = []
    for work in held { schedule.add(work) }
  }
}
