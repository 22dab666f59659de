import Glibc

/// Returns the result of a system call, or throws its error.
///
/// - Parameters:
///   - result: The result, or `-errno`.
///   - call: The name of the call.
/// - Returns: The result, at least 0.
/// - Throws: The error.
@discardableResult
func check(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
  if result < 0 { throw SystemError(call: call, errno: -result) }
  return result
}

/// Repeats `body` until the call is not interrupted. All other code relies on this function to handle EINTR.
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
