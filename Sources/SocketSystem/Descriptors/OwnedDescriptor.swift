import Glibc

/// An open file descriptor with exactly one owner. It is closed once, when its owner is destroyed: close(2).
///
/// close(2) is never retried, because Linux closes the descriptor whatever close(2) returns.
public struct OwnedDescriptor: ~Copyable, Sendable {
  /// The number of the descriptor in this process.
  public let number: Int32

  /// Takes ownership of an open descriptor.
  ///
  /// - Parameter number: The number of the descriptor, at least 0. No other code may close it afterwards.
  public init(owning number: Int32) { self.number = number }

  /// Takes ownership of a descriptor that a call has just made. It never has the number of a standard stream: fcntl(2) with
  /// F_DUPFD_CLOEXEC.
  ///
  /// If a program has closed a standard stream, the kernel gives its number to the next descriptor. What the program, or a child
  /// process, then writes to its standard error would reach a peer. Such a descriptor is moved.
  ///
  /// - Parameter number: The number of the descriptor, at least 0. The descriptor is closed on exec. It is closed if this throws.
  /// - Throws: The error of fcntl(2), for example if the process has no other descriptor left.
  init(new number: Int32) throws(SystemError) {
    self.number = number > STDERR_FILENO ? number : try Self.moveAboveStandardStreams(number)
  }

  @inline(never)
  private static func moveAboveStandardStreams(_ number: Int32) throws(SystemError) -> Int32 {
    let result = fcntl(number, F_DUPFD_CLOEXEC, lowest)
    let error = errno
    _ = close(number)
    if result < 0 { throw SystemError(call: "fcntl", errno: error) }
    return result
  }

  /// The lowest number of a descriptor that this module makes.
  static var lowest: Int32 { STDERR_FILENO + 1 }

  /// Duplicates a descriptor. Both refer to the same open file, which is closed when both are: fcntl(2) with F_DUPFD_CLOEXEC.
  ///
  /// - Parameter number: An open descriptor, which keeps its owner.
  /// - Throws: The error of fcntl(2), for example if the process has no descriptor left.
  public init(duplicating number: Int32) throws(SystemError) {
    let source = BorrowedDescriptor(number)
    if source.isSimulated, number < SimulatedDescriptors.firstOfKernel {
      self.number = try source.simulated("fcntl") { $0.duplicate(number) }
    } else {
      self.number = try check(fcntl(source.kernelNumber, F_DUPFD_CLOEXEC, Self.lowest), "fcntl")
    }
  }

  deinit {
    if number >= SimulatedDescriptors.first { SimulatedDescriptors.close(number) } else { _ = close(number) }
  }

  /// The socket behind the descriptor, for the calls on it. It is valid as long as this owner.
  package var socket: BorrowedDescriptor { BorrowedDescriptor(number) }

  /// Makes the kernel answer all calls on the descriptor. It changes only a descriptor that stands for one of the kernel.
  package consuming func withoutFaults() -> OwnedDescriptor {
    let kernelNumber = socket.kernelNumber
    let number = release()
    // The system forgets it.
    if number != kernelNumber { SimulatedDescriptors.system?.close(number) }
    return OwnedDescriptor(owning: kernelNumber)
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
