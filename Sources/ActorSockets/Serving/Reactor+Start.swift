public import EpollReactor
internal import SocketSystem

extension Reactor {
  /// Starts a reactor with its own thread: epoll_create1(2), eventfd(2), pthread_create(3).
  ///
  /// Use it in place of `Reactor()` where the program can continue without another reactor. In a simulation, the thread is the
  /// simulation's.
  ///
  /// - Returns: The reactor.
  /// - Throws: ``SocketError``: `.tooManyOpenFiles` if no descriptor is free; `.system` if the system allows no more threads.
  public static func start() throws -> Reactor {
    do throws(SystemError) {
      return try Reactor(orThrow: nil)
    } catch {
      throw SocketError(startingReactor: error)
    }
  }
}

extension SocketError {
  fileprivate init(startingReactor error: SystemError) {
    self.init(error, operation: "start a reactor")
    if error.errno == Errno.wouldBlock {
      detail = "the system allows no more threads; raise the limit of threads and processes (ulimit -u, pids.max)"
    }
  }
}
