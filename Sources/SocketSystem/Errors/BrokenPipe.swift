import Glibc

/// Makes a call that has no flag like MSG_NOSIGNAL, without raising SIGPIPE: pthread_sigmask(3), sigtimedwait(2). `body` returns the
/// number of bytes that the call has moved, or `-errno`. The calling thread blocks the signal meanwhile. If the call raises it, it is
/// taken before the thread unblocks it.
///
/// A call that has moved some bytes before it raises the signal returns their number, not EPIPE: sendfile(2) after its first 64 KiB,
/// write(2) to a pipe. Only two results prove that the signal was not raised: all bytes, and EAGAIN.
func withoutBrokenPipeSignal(moving count: Int, _ body: () -> Int) -> Int {
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
    let mayHaveRaised = result != count && result != -Int(EAGAIN)
    // SAFETY: the set and the time are valid for the call.
    if mayHaveRaised { while unsafe sigtimedwait(&signal, nil, &noTime) < 0, errno == EINTR {} }
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
  }
  return result
}
