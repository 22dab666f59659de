/// An open file descriptor with exactly one owner. It is closed once, when its owner is destroyed: close(2).
public struct OwnedDescriptor: ~Copyable, Sendable {
  /// The number of the descriptor in this process.
  public let number: Int32

  /// Takes ownership of an open descriptor.
  ///
  /// - Parameter number: The number of the descriptor, at least 0. No other code may close it afterwards.
  public init(owning number: Int32) { self.number = number }

  /// Takes ownership of a descriptor, closed on exec, that a call of Linux has just made. It never has the number of a standard stream:
  /// fcntl(2) with F_DUPFD_CLOEXEC. If this throws, the descriptor is closed.
  init(new number: Int32) throws(SystemError) {
    self.number = try check(Linux.aboveStandardStreams(number), "fcntl")
  }

  /// Duplicates a descriptor. Both refer to the same open file, which is closed when both are: fcntl(2) with F_DUPFD_CLOEXEC.
  ///
  /// - Parameter number: An open descriptor, which keeps its owner.
  /// - Throws: The error of fcntl(2), for example if the process has no descriptor left.
  public init(duplicating number: Int32) throws(SystemError) {
    self.number = try check(CurrentSystem.of(number) { $0.duplicate(number) }, "fcntl")
  }

  deinit { CurrentSystem.of(number) { $0.close(number) } }

  /// Valid as long as this owner.
  package var socket: BorrowedDescriptor { BorrowedDescriptor(number) }

  /// Gives up ownership to the closure. If the closure throws, it has not taken the descriptor, which is closed.
  package consuming func handOver<Value>(to owner: (Int32) throws -> Value) throws -> Value {
    let value = try owner(number)
    _ = release()
    return value
  }

  /// Gives up ownership without closing. The caller must close the descriptor.
  ///
  /// - Returns: The number of the descriptor.
  public consuming func release() -> Int32 {
    let number = self.number
    discard self
    return number
  }
}
