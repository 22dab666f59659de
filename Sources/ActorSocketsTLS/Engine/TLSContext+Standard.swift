internal import SocketSystem

extension TLSContext {
  /// The context of clients that name none, made at its first use. It resumes no sessions, because what one part of a program connects to
  /// must not change the handshakes of another part.
  static var standard: TLSContext {
    get throws(TLSError) {
      try kept.value { () throws(TLSError) in try TLSContext(.with { $0.allowsResumption = false }) }
    }
  }

  private static let kept = FirstSuccess<TLSContext>()
}

/// A value that is made at its first use. A failure, for example for want of descriptors, is not kept: the next use tries again.
struct FirstSuccess<Value: Sendable>: Sendable {
  private let made = Locked<Value?>(nil)

  /// `make` is called without the lock, because it may read files. If two calls make the value at the same time, both get the first one.
  func value<Failure: Error>(_ make: () throws(Failure) -> Value) throws(Failure) -> Value {
    if let value = made.withLock({ $0 }) { return value }
    let new = try make()
    return made.withLock { value in
      if let first = value { return first }
      value = new
      return new
    }
  }
}
