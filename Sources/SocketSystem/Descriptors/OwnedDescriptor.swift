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

  /// Duplicates a descriptor. Both refer to the same open file, which is closed when both are: fcntl(2) with F_DUPFD_CLOEXEC.
  ///
  /// - Parameter number: An open descriptor, which keeps its owner.
  /// - Throws: The error of fcntl(2), for example if the process has no descriptor left.
  public init(duplicating number: Int32) throws(SystemError) {
    let source = BorrowedDescriptor(number)
    if source.isSimulated, number < SimulatedDescriptors.firstOfKernel {
      self.number = try source.simulated("fcntl") { $0.duplicate(number) }
    } else {
      self.number = try check(fcntl(source.kernelNumber, F_DUPFD_CLOEXEC, 0), "fcntl")
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
