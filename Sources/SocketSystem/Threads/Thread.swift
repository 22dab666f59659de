internal import CLinux
import Glibc

/// Starts a detached thread: pthread_create(3). Tools such as `top -H` show its name, which is cut after 15 bytes. Throws `EAGAIN` if
/// there are too many threads.
///
/// The thread blocks the signals that the threads of Swift's pool block: all but SIGPIPE, SIGPROF and those that a fault of the running
/// code raises. So the handlers of other signals run on the program's own threads. Threads and processes that code on this thread starts
/// inherit the mask, and the pool starts its threads on whatever thread adds a job. With more signals blocked, code on those threads
/// would lose its backtrace and its handlers, and its child processes would survive a pipe that has no reader.
package func startThread(name: String, body: @escaping @Sendable () -> Void) throws(SystemError) {
  var blocked = sigset_t()
  var before = sigset_t()
  // SAFETY: the sets are valid for the calls.
  unsafe sigfillset(&blocked)
  for signal in [SIGILL, SIGTRAP, SIGFPE, SIGBUS, SIGSEGV, SIGSYS, SIGPIPE, SIGPROF] {
    unsafe sigdelset(&blocked, signal)
  }
  unsafe pthread_sigmask(SIG_BLOCK, &blocked, &before)
  defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }

  // Detached from the start: the address sanitizer does not learn of pthread_detach(3), so it would keep the ended thread, not scan a
  // later one with the same thread ID, and report what only that one refers to as leaked.
  var attributes = pthread_attr_t()
  // SAFETY: the attributes are valid for the calls.
  unsafe pthread_attr_init(&attributes)
  defer { unsafe pthread_attr_destroy(&attributes) }
  unsafe pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))

  var thread = pthread_t()
  // SAFETY: the box is retained for the thread, which takes it over and releases it.
  let box = unsafe Unmanaged.passRetained(ThreadBody(name: name, body: body))
  let error = unsafe pthread_create(
    &thread, &attributes,
    { argument in
      if let argument = unsafe argument {
        let box = unsafe Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue()
        unsafe clinux_name_thread(String(box.name.prefix(15)))
        box.body()
      }
      return nil
    }, box.toOpaque())
  if error != 0 {
    unsafe box.release()
    throw SystemError(call: "pthread_create", errno: error)
  }
}

/// No other living thread has the number: pthread_self(3).
package func currentThread() -> UInt { UInt(pthread_self()) }

/// For the calling thread: sched_getaffinity(2).
package func usableProcessors() -> Int { Int(clinux_usable_processors()) }

private final class ThreadBody: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}
