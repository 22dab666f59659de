import Glibc

/// An open file descriptor with one owner: it is closed when its owner lets go of it, once.
///
/// close(2) is never retried: Linux carries it out whatever it returns.
public struct Descriptor: ~Copyable, Sendable {
  /// The number that the kernel knows it by.
  public let number: Int32

  /// Takes ownership of an open descriptor.
  ///
  /// - Parameter number: Its number; nobody else may close it afterwards.
  public init(owning number: Int32) { self.number = number }

  deinit { _ = close(number) }

  /// The socket, for as long as this owner lives.
  package var socket: Socket { Socket(number) }

  /// Gives the number away: the caller closes it.
  ///
  /// - Returns: The number.
  public consuming func release() -> Int32 {
    let number = self.number
    discard self
    return number
  }
}
