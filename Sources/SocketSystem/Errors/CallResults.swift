import Glibc

/// Turns -1 into the error of the call named `call`.
func check(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
  if result < 0 { throw SystemError(call: call, errno: errno) }
  return result
}

/// Calls `body` until it is not interrupted: the one place where EINTR is handled.
///
/// - Parameter body: Makes the call, and returns its result or `-errno`.
/// - Returns: The result, or `-errno`.
@inline(__always)
func retryingInterrupts(_ body: () -> Int) -> Int {
  while true {
    let result = body()
    if result != -Int(EINTR) { return result }
  }
}
