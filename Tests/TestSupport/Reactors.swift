package import EpollReactor

extension Reactor {
  /// Waits until the reactor's thread, which is returned, sleeps in epoll_wait(2), with nothing to do for a second at least.
  @discardableResult
  package nonisolated(nonsending) func sleeps(file: String = #fileID, line: Int = #line) async throws -> KernelThread {
    let thread = await Task(executorPreference: self) { KernelThread.current }.value
    try await eventually("the reactor sleeps", file: file, line: line) {
      let before = metrics
      guard let timeout = try thread.pollTimeout, timeout < 0 || timeout > 1000 else { return false }
      // The reactor slept all the time in between.
      return metrics.polls == before.polls && metrics.jobs == before.jobs
    }
    return thread
  }
}
