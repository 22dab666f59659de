internal import CLinux
import Glibc

/// A system call that failed: which one, and the `errno` it left.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The name of the system call, as its man page spells it.
  public let call: String
  /// The error number, for example `ECONNREFUSED`.
  public let errno: Int32

  /// An error of the call named `call`.
  ///
  /// - Parameters:
  ///   - call: The name of the system call.
  ///   - errno: The error number.
  public init(call: String, errno: Int32) {
    self.call = call
    self.errno = errno
  }

  /// For example `connect: Connection refused (errno 111)`.
  public var description: String { "\(call): \(Self.message(errno)) (errno \(errno))" }

  /// The C library's text for an error number: strerrordesc_np(3).
  package static func message(_ errno: Int32) -> String {
    // SAFETY: the text is static and ends with a NUL.
    guard let text = unsafe clinux_error_text(errno) else { return "error \(errno)" }
    return unsafe String(cString: text)
  }
}

/// What one nonblocking transfer came to.
package enum Transfer {
  /// So many bytes moved. Zero from a receive is the end of the stream.
  case bytes(Int)
  /// Nothing can move before the next readiness event.
  case wouldBlock
  /// The call failed for good.
  case failed(SystemError)
}

/// Error numbers that other modules tell apart, so that they need not import the C library.
package enum Errno {
  package static let badDescriptor = EBADF
  package static let wouldBlock = EAGAIN
  package static let noDevice = ENODEV
  package static let invalidArgument = EINVAL
  package static let notSocket = ENOTSOCK
  package static let notConnected = ENOTCONN
  package static let connectionReset = ECONNRESET
  package static let brokenPipe = EPIPE
  package static let connectionRefused = ECONNREFUSED
  package static let connectionAborted = ECONNABORTED
  package static let timedOut = ETIMEDOUT
  package static let addressInUse = EADDRINUSE
  package static let addressNotAvailable = EADDRNOTAVAIL
  package static let familyNotSupported = EAFNOSUPPORT
  package static let hostUnreachable = EHOSTUNREACH
  package static let networkUnreachable = ENETUNREACH
  package static let hostDown = EHOSTDOWN
  package static let networkDown = ENETDOWN
  package static let permissionDenied = EACCES
  package static let notPermitted = EPERM
  package static let readOnly = EROFS
  package static let noSuchFile = ENOENT
  package static let notADirectory = ENOTDIR
  package static let wrongType = EPROTOTYPE
  package static let processDescriptors = EMFILE
  package static let systemDescriptors = ENFILE
  package static let noBuffers = ENOBUFS
  package static let messageTooLong = EMSGSIZE
  package static let noMemory = ENOMEM
  package static let protocolError = EPROTO
  package static let noProtocolOption = ENOPROTOOPT
  package static let tooManyReferences = ETOOMANYREFS
  package static let notSupported = EOPNOTSUPP
}

/// Calls `body` until it is not interrupted: the one place where EINTR is handled.
///
/// - Parameter body: Makes the call, and returns its result or `-errno`.
/// - Returns: The result, or `-errno`.
@inline(__always)
func retryingInterrupts(_ body: () -> Int) -> Int {
  while true {
    let result = body()
    if result != -Int(EINTR) { return result }
  }
}
