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

/// A place of each thread for one object of this class: what the thread works for.
@safe package struct ThreadPlace<Object: AnyObject>: Sendable {
  /// The places there are.
  package enum Number: Int32, Sendable { case loop, worker }

  private let number: Int32

  /// The place with this number, which is that of objects of this class alone.
  package init(_ number: Number) { self.number = number.rawValue }

  /// The calling thread's object. It is not kept alive: whoever puts it there takes it away in time.
  package var object: Object? {
    get {
      // SAFETY: what was put there lives until it is taken away, and there is nothing of another class at this place.
      // Not with Optional's `map`: generic code calls it through the runtime, which costs hundreds of instructions a call.
      guard let object = unsafe clinux_thread_object(number) else { return nil }
      return unsafe Unmanaged<Object>.fromOpaque(object).takeUnretainedValue()
    }
    nonmutating set {
      // SAFETY: as above.
      if let newValue {
        unsafe clinux_set_thread_object(number, Unmanaged.passUnretained(newValue).toOpaque())
      } else {
        clinux_set_thread_object(number, nil)
      }
    }
  }
}

private final class ThreadBody: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}
