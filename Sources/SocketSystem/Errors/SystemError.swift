internal import CLinux

/// The error of a failed system call: the name of the call and its `errno`.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The name of the system call, as its man page spells it.
  public let call: String
  /// The error number, for example `ECONNREFUSED`. See errno(3).
  public let errno: Int32

  /// Creates the error of a system call.
  ///
  /// - Parameters:
  ///   - call: The name of the system call, as its man page spells it.
  ///   - errno: The error number.
  public init(call: String, errno: Int32) {
    self.call = call
    self.errno = errno
  }

  package var isShortageOfDescriptors: Bool { errno == Errno.processDescriptors || errno == Errno.systemDescriptors }

  /// The error in text, for example `connect: Connection refused (errno 111)`.
  public var description: String { "\(call): \(Self.message(errno)) (errno \(errno))" }

  /// The C library's text: strerrordesc_np(3).
  package static func message(_ errno: Int32) -> String {
    // The C library adds "cannot splice", which has nothing to do with sockets.
    if errno == Errno.tooManyReferences { return "Too many references" }
    // SAFETY: the text is static and ends with a NUL.
    guard let text = unsafe clinux_error_text(errno) else { return "error \(errno)" }
    return unsafe String(cString: text)
  }
}
