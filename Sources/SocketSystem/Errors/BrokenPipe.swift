import Glibc

/// Makes a call that has no flag like MSG_NOSIGNAL, without raising SIGPIPE: pthread_sigmask(3), sigtimedwait(2).
///
/// The calling thread blocks the signal meanwhile. If the call raises it, it is taken before the thread unblocks it.
///
/// - Parameter body: Makes the call, and returns its result or `-errno`.
/// - Returns: The result, or `-errno`.
func withoutBrokenPipeSignal(_ body: () -> Int) -> Int {
  var signal = sigset_t()
  var before = sigset_t()
  // SAFETY: the sets are valid for the calls.
  unsafe sigemptyset(&signal)
  unsafe sigaddset(&signal, SIGPIPE)
  unsafe pthread_sigmask(SIG_BLOCK, &signal, &before)
  let result = body()
  // A thread that had blocked the signal before keeps it pending, as it would without this function.
  if unsafe sigismember(&before, SIGPIPE) == 0 {
    var noTime = timespec()
    // SAFETY: the set and the time are valid for the call.
    if result == -Int(EPIPE) { while unsafe sigtimedwait(&signal, nil, &noTime) < 0, errno == EINTR {} }
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
  }
  return result
}
