/// A suspended operation, to be resumed exactly once.
///
/// Debug builds check that; release builds leave the check's allocation out.
@safe @usableFromInline package struct Parked<Value: Sendable>: Sendable {
  #if DEBUG
    @usableFromInline let continuation: CheckedContinuation<Value, Never>
    @usableFromInline init(_ continuation: CheckedContinuation<Value, Never>) { self.continuation = continuation }
    /// Lets the operation go on.
    @inlinable package func resume(_ value: consuming sending Value) { continuation.resume(returning: value) }
  #else
    @usableFromInline let continuation: UnsafeContinuation<Value, Never>
    @usableFromInline init(_ continuation: UnsafeContinuation<Value, Never>) { unsafe self.continuation = continuation }
    /// Lets the operation go on.
    @inlinable package func resume(_ value: consuming sending Value) {
      // SAFETY: whoever keeps a parked operation takes it out of its queue before resuming it, so it is resumed once.
      unsafe continuation.resume(returning: value)
    }
  #endif
}

/// Suspends the caller; `body` keeps the parked operation and runs before anything else can.
@inlinable
package func park<Value: Sendable>(_ body: (Parked<Value>) -> Void) async -> Value {
  #if DEBUG
    await withCheckedContinuation { body(Parked($0)) }
  #else
    await unsafe withUnsafeContinuation { body(unsafe Parked($0)) }
  #endif
}
