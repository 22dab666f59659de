package final class SystemHolder {
  fileprivate let system: any SystemCalls

  package init(_ system: any SystemCalls) { self.system = system }
}

/// Chooses the system of each call: that of the calling thread. On a thread that runs in no other system, a call of Linux costs one
/// comparison more than the call itself.
package enum CurrentSystem {
  private static let holder = ThreadLocal<SystemHolder>(.system)

  /// The system for calls that have no descriptor.
  package static var calls: any SystemCalls { holder.object?.system ?? Linux() }

  @inline(__always)
  static func of<Result: ~Copyable, Failure>(
    _ number: Int32, _ call: (any SystemCalls) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    guard let holder = holder.object else { return try call(Linux()) }
    return try call(holder.system.owns(number) ? holder.system : Linux())
  }

  /// Gives a descriptor of the calling thread to a thread that runs in another system; `nil` is Linux.
  package static func give(_ number: Int32, to other: SystemHolder?) {
    if let holder = holder.object, holder !== other { holder.system.forget(number) }
  }

  /// `nil` is Linux.
  package static func using<Result, Failure>(
    _ system: SystemHolder?, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let before = holder.object
    holder.object = system
    defer { holder.object = before }
    return try body()
  }
}
