internal import EpollReactor
internal import SocketSystem

extension VirtualThread {
  var defaultReactor: Reactor {
    let owner = currentOwner
    if let reactor = hosts[owner.host].reactor, isAlive(owner) { return reactor }
    let reactor = Reactor(isShared: true, driver: makeDriver())
    if isAlive(owner) { hosts[owner.host].reactor = reactor }
    return reactor
  }

  func makeDriver() -> VirtualDriver {
    let driver = VirtualDriver(self, currentOwner)
    drivers.removeAll { $0.loop == nil && $0.hasBegun }
    drivers.append(driver)
    // The first iteration finds out that there is nothing to do. From then on the reactor wakes its driver.
    scheduleReactor(driver)
    return driver
  }

  func runReactor(_ driver: VirtualDriver) {
    if let timer = driver.timer.take() { schedule.remove(timer) }
    driver.isScheduled = false
    driver.hasBegun = true
    switch driver.loop?.iterate() {
    case .some(.none): scheduleReactor(driver)
    case .sleep(let time):
      guard let time else { break }
      let work = Work(kind: .reactorDeadline(driver), owner: driver.owner, hostTime: time)
      driver.timer = schedule.add(work, at: clocks[driver.owner.host].time(of: time))
    case .end, nil: break
    }
  }

  /// The reactor has stopped with its host. Default actors, which may have calls of other hosts, run elsewhere.
  func letActorsRun(on driver: VirtualDriver) {
    driver.isScheduled = false
    for job in driver.loop?.stop(without: VirtualExecutors.isOfActor) ?? [] { _ = add(.task(job)) }
  }

  func scheduleReactor(_ driver: VirtualDriver) {
    if driver.isScheduled { return }
    driver.isScheduled = true
    schedule.add(Work(kind: .reactor(driver), owner: driver.owner))
  }

  /// Any thread.
  func wakeReactor(_ driver: VirtualDriver) {
    if VirtualThread.current === self { return scheduleReactor(driver) }
    outside.add(.reactor(driver))
  }
}
