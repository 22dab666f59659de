extension StreamListener {
  /// Calls a closure, and closes the listener when the closure returns or throws.
  ///
  /// Accepted connections are not affected. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation*: calls that wait for connections throw `CancellationError`, so that the closure ends.
  ///
  /// - Parameter body: The closure to run.
  /// - Returns: The closure's result, after the listener is closed.
  /// - Throws: The error of the closure.
  public nonisolated(nonsending) func closeAfter<Value: ~Copyable, Failure: Error>(
    _ body: nonisolated(nonsending) () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    try await scoped(body, close: { await close() }, abort: { await close() })
  }
}
