// The use of a socket in a scope. Each kind has its way to make the socket and its two ways to end it; the rest is the same for all.
//
// Invariants:
// - The socket has ended when the scope returns or throws, whichever way the body ends.
// - If the body returns, the socket closes as its orderly close does, so nothing that the body wrote is lost.
// - If the body throws, or the task is cancelled before the close is done, the socket ends at once.
// - The body runs in the isolation of the caller, and its value need not be `Sendable`.

/// Runs a closure, and then one of the two ways to end what it used.
package nonisolated(nonsending) func scoped<Value: ~Copyable, Failure: Error>(
  _ body: nonisolated(nonsending) () async throws(Failure) -> Value,
  close: nonisolated(nonsending) () async -> Void, abort: nonisolated(nonsending) () async -> Void
) async throws(Failure) -> Value {
  let value: Value
  do {
    value = try await body()
  } catch {
    await abort()
    throw error
  }
  await close()
  if Task.isCancelled { await abort() }
  return value
}

extension ByteStream {
  /// Calls a closure, and ends the stream when the closure has ended.
  ///
  /// ```swift
  /// let answer = try await connection.closeAfter {
  ///   try await connection.write(utf8: "status\n")
  ///   return try await connection.read(until: .lf)
  /// }
  /// ```
  ///
  /// When the closure returns, the stream is closed as by ``close()``, and the call waits for it. When the closure throws, the stream is
  /// aborted. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation*: operations of the closure throw `CancellationError`. If the task is cancelled before the stream has closed, even if
  /// the closure returned a value, the stream is aborted, and bytes that were not sent are dropped. The value is returned nevertheless.
  ///
  /// - Parameter body: The closure to run.
  /// - Returns: The closure's result, after the stream has ended.
  /// - Throws: The error of the closure.
  public nonisolated(nonsending) func closeAfter<Value: ~Copyable, Failure: Error>(
    _ body: nonisolated(nonsending) () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    try await scoped(body, close: { await close() }, abort: { await abort() })
  }
}
