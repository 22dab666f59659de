import Glibc

/// Other modules use these numbers, so that they need not import the C library.
package enum Errno {
  package static let badDescriptor = EBADF
  package static let wouldBlock = EAGAIN
  package static let noDevice = ENODEV
  package static let noSuchDevice = ENXIO
  /// The errors of a socket that the kernel makes of reports by ICMP: `icmp_err_convert`, `icmpv6_err_convert`.
  package static let reportedByICMP: Set<Int32> = [
    ENETUNREACH, EHOSTUNREACH, ENOPROTOOPT, ECONNREFUSED, EMSGSIZE, EOPNOTSUPP, EHOSTDOWN, ENONET, EPROTO, EACCES,
  ]
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
  package static let destinationRequired = EDESTADDRREQ
  package static let messageTooLong = EMSGSIZE
  package static let inputOutput = EIO
  package static let noMemory = ENOMEM
  package static let protocolError = EPROTO
  package static let noProtocolOption = ENOPROTOOPT
  package static let tooManyReferences = ETOOMANYREFS
  package static let notSupported = EOPNOTSUPP
  package static let notImplemented = ENOSYS
  package static let inProgress = EINPROGRESS
  package static let alreadyInProgress = EALREADY
  package static let isConnected = EISCONN
  package static let exists = EEXIST
  package static let notEmpty = ENOTEMPTY
  package static let isDirectory = EISDIR
  package static let noSpace = ENOSPC
  package static let quotaExceeded = EDQUOT
  package static let fileTooLarge = EFBIG
  package static let symbolicLink = ELOOP
}
