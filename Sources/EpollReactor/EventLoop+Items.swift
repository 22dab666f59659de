extension EventLoop {
  func run(_ item: consuming JobQueue.Item) {
    switch consume item {
    case .socket(let job, let executor, let preference):
      executor.admission.queuedCallBegins()
      run(job, executor, preference)
      executor.admission.callsAreSettled()
    case .resumed(let job, let executor, let preference):
      executor.admission.placeIsUsed()
      run(job, executor, preference)
    #if ACTORSOCKETS_PLAIN
      case .suspended(let kept, let suspension, let isCall):
        letReturn(kept, suspension, isCall)
    #endif
    case .task(let job, let reactor):
      running.preference = .reactor
      beginUserCode()
      defer { endUserCode() }
      // SAFETY: the runtime handed the job to `enqueue` once, and it is run once, here.
      unsafe job.runSynchronously(on: reactor.asUnownedTaskExecutor())
    case .call(let body, let executor):
      executor?.admission.queuedCallBegins()
      // The call's place in the queue has been used; calls that its body starts have places of their own.
      executor?.admission.placeIsUsed()
      body()
      executor?.admission.callsAreSettled()
    }
  }

  private func run(_ job: UnownedJob, _ executor: ReactorExecutor, _ preference: TaskPreference) {
    running.preference = preference
    if executor.mayCompute { beginUserCode() }
    defer { endUserCode() }
    switch preference {
    case .other:
      // SAFETY: as above.
      unsafe job.runSynchronously(on: executor.asUnownedSerialExecutor())
    case .reactor:
      // SAFETY: as above.
      unsafe job.runSynchronously(
        isolatedTo: executor.asUnownedSerialExecutor(), taskExecutor: executor.reactor.asUnownedTaskExecutor())
    case .workers:
      // SAFETY: as above.
      unsafe job.runSynchronously(
        isolatedTo: executor.asUnownedSerialExecutor(), taskExecutor: WorkerPool.shared.asUnownedTaskExecutor())
    }
  }

  private func beginUserCode() {
    stopCollecting()
    running.callsWithoutHopLeft = RunningCode.mostCallsWithoutHop
  }

  private func endUserCode() {
    running.callsWithoutHopLeft = 0
    handover.isCollecting = true
  }

  /// Hands over the collected jobs, and from now on each job at once. Called before code that may run for long.
  func stopCollecting() {
    handOverAll()
    handover.isCollecting = false
  }

  #if ACTORSOCKETS_PLAIN
    /// Runs the kept job on the executor that it was enqueued for, then the job that returns to the call's actor.
    private func letReturn(_ kept: KeptJob, _ suspension: Suspension, _ isCall: Bool) {
      if isCall {
        suspension.executor.admission.queuedCallBegins()
      } else {
        suspension.executor.admission.placeIsUsed()
      }
      running.preference = kept.preference
      running.returning = suspension.executor
      // SAFETY: as above.
      unsafe kept.job.runSynchronously(on: suspension.unownedExecutor)
      running.returning = nil
      if let job = running.returned.take() { run(job, suspension.executor, kept.preference) }
      if isCall { suspension.executor.admission.callsAreSettled() }
    }

    /// Takes a job if it is the one with which a suspended call returns to its actor.
    func takesReturn(_ job: UnownedJob, _ executor: ReactorExecutor) -> Bool {
      guard isCurrent, running.returning === executor, running.returned == nil else { return false }
      running.returned = job
      return true
    }
  #endif
}
