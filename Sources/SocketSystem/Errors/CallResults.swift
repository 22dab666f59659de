import Glibc

/// `result` is that of a system call, or `-errno`.
@discardableResult
func check(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
  if result < 0 { throw SystemError(call: call, errno: -result) }
  return result
}

/// Repeats `body`, which returns its result or `-errno`. All other code relies on this function to handle EINTR.
@inline(__always)
func retryingInterrupts(_ body: () -> Int) -> Int {
  while true {
    let result = body()
    if result != -Int(EINTR) { return result }
  }
}
