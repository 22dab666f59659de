internal import CLinux
import Glibc

/// Starts a detached thread.
///
/// It takes no signals, so that the program's handlers run on the program's own threads and no call here is cut short.
///
/// - Parameters:
///   - name: What tools such as `top -H` show; 15 bytes at most, longer names are cut.
///   - body: What the thread does; the thread ends when it returns.
/// - Throws: What pthread_create(3) reports, `EAGAIN` when there are too many threads.
package func startThread(name: String, body: @escaping @Sendable () -> Void) throws(SystemError) {
  var all = sigset_t()
  var before = sigset_t()
  unsafe sigfillset(&all)
  unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
  defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }

  var thread = pthread_t()
  // SAFETY: the box is retained for the thread, which takes it over and releases it.
  let box = unsafe Unmanaged.passRetained(ThreadBody(name: name, body: body))
  let error = unsafe pthread_create(
    &thread, nil,
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
  pthread_detach(thread)
}

/// A number that tells the calling thread from all others that live: pthread_self(3).
package func currentThread() -> UInt { UInt(pthread_self()) }

/// The processors that the calling thread may use: sched_getaffinity(2).
package func usableProcessors() -> Int { Int(clinux_usable_processors()) }

private final class ThreadBody: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}
