package import SocketSystem

/// Why an operation on a socket failed.
///
/// Compare ``code``; the description is for people. Cancellation is not a `SocketError`, it is a `CancellationError`.
public struct SocketError: Error, Sendable, CustomStringConvertible {
  /// A cause that programs tell apart. More may come; treat those you do not know as ``system``.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The code's name, as in `.timedOut`.
    public let description: String

    private init(_ name: String) { description = name }

    /// The connection was closed on this side, or its writing side was finished.
    public static let closed = Code("closed")
    /// The peer reset the connection: ECONNRESET, EPIPE.
    public static let connectionReset = Code("connectionReset")
    /// The peer finished before the bytes asked for were complete. What there is can still be read.
    public static let endOfStream = Code("endOfStream")
    /// The time given was over. Bytes that had arrived stay buffered for the next read.
    public static let timedOut = Code("timedOut")
    /// A maximum length or a budget was exceeded. Bytes that had arrived stay buffered.
    public static let limitExceeded = Code("limitExceeded")
    /// A read that was enqueued before this one failed, so this one would have read the wrong bytes. It consumed none.
    public static let precedingReadFailed = Code("precedingReadFailed")
    /// The stream was upgraded: use the stream that the upgrade returned.
    public static let upgraded = Code("upgraded")
    /// Nobody listens at the address: ECONNREFUSED.
    public static let connectionRefused = Code("connectionRefused")
    /// Another socket has the address: EADDRINUSE.
    public static let addressInUse = Code("addressInUse")
    /// No interface of this machine has the address, or no local port is free: EADDRNOTAVAIL.
    public static let addressNotAvailable = Code("addressNotAvailable")
    /// The name has no address.
    public static let hostNotFound = Code("hostNotFound")
    /// The name could not be looked up: no name server answered.
    public static let resolverFailed = Code("resolverFailed")
    /// This machine does not do this kind of address: EAFNOSUPPORT, as where IPv6 is off.
    public static let familyNotSupported = Code("familyNotSupported")
    /// A link-local address without its interface: `fe80::1` in place of `fe80::1%eth0`.
    public static let scopeMissing = Code("scopeMissing")
    /// There is no way to the address: ENETUNREACH, EHOSTUNREACH.
    public static let unreachable = Code("unreachable")
    /// The process or the system has no descriptor left: EMFILE, ENFILE.
    public static let tooManyOpenFiles = Code("tooManyOpenFiles")
    /// The operation is not allowed: EACCES, EPERM.
    public static let permissionDenied = Code("permissionDenied")
    /// There is something else in the place of a socket: a directory, a file, a pipe.
    public static let notASocket = Code("notASocket")
    /// There is no such path, or no such directory to make a socket in: ENOENT, ENOTDIR.
    public static let pathNotFound = Code("pathNotFound")
    /// The endpoint has no peer, and the datagram does not say where it goes.
    public static let notConnected = Code("notConnected")
    /// This machine has no such interface, or it has nothing to do with groups: ENODEV.
    public static let interfaceNotFound = Code("interfaceNotFound")
    /// The endpoint is in this group already.
    public static let alreadyJoined = Code("alreadyJoined")
    /// The endpoint is not in this group.
    public static let notJoined = Code("notJoined")
    /// An argument makes no sense: a negative length, an empty delimiter, port 0 to connect to.
    public static let invalidArgument = Code("invalidArgument")
    /// Text that is not UTF-8. ``SocketError/bytes`` has it; it was consumed.
    public static let invalidUTF8 = Code("invalidUTF8")
    /// A closure of the program's refused; ``SocketError/underlyingError`` says why.
    public static let rejected = Code("rejected")
    /// A layer above the stream failed, TLS for example; ``SocketError/underlyingError`` says why. In a ``CloseReport`` alone:
    /// operations throw the layer's own error.
    public static let layerFailed = Code("layerFailed")
    /// The reactor was shut down.
    public static let reactorShutDown = Code("reactorShutDown")
    /// Any other failure; ``SocketError/errno`` tells.
    public static let system = Code("system")
  }

  /// All there is to it, in one word: connections keep room for several errors and hardly ever have one.
  private var box: Box

  private final class Box: Sendable {
    let contents: Contents
    init(_ contents: Contents) { self.contents = contents }
  }

  private struct Contents: Sendable {
    var code: Code
    var operation: String
    var errno: Int32
    var address: SocketAddress?
    var bytesTransferred: Int
    var bytes: [UInt8]
    var detail: String
    var causes: [SocketError]
    var underlying: (any Error)?
  }

  /// An error with the cause given.
  ///
  /// - Parameters:
  ///   - code: The cause.
  ///   - operation: What was tried.
  ///   - detail: A clause about this case; it ends up in ``description``, so text from a peer must be escaped in it.
  ///   - errno: The error number, or 0.
  ///   - address: The address it was about.
  ///   - bytesTransferred: How many bytes of the operation were done.
  ///   - bytes: Bytes that could not be understood.
  ///   - causes: The errors that this one sums up; the detail should name them.
  ///   - underlyingError: What a closure of the program's threw.
  public init(
    _ code: Code, operation: String, detail: String = "", errno: Int32 = 0, address: SocketAddress? = nil,
    bytesTransferred: Int = 0, bytes: [UInt8] = [], causes: [SocketError] = [], underlyingError: (any Error)? = nil
  ) {
    box = Box(
      Contents(
        code: code, operation: operation, errno: errno, address: address, bytesTransferred: bytesTransferred,
        bytes: bytes, detail: detail, causes: causes, underlying: underlyingError))
  }

  /// The cause.
  public var code: Code {
    get { box.contents.code }
    set { change { $0.code = newValue } }
  }

  /// What was tried, for example `"read"` or `"connect"`.
  public var operation: String {
    get { box.contents.operation }
    set { change { $0.operation = newValue } }
  }

  /// The error number of the system call behind it, or 0.
  public var errno: Int32 {
    get { box.contents.errno }
    set { change { $0.errno = newValue } }
  }

  /// The address it was about, if there is one.
  public var address: SocketAddress? {
    get { box.contents.address }
    set { change { $0.address = newValue } }
  }

  /// How many bytes of the operation were done before it failed: of a write, what the kernel had taken.
  public var bytesTransferred: Int {
    get { box.contents.bytesTransferred }
    set { change { $0.bytesTransferred = newValue } }
  }

  /// The bytes that could not be understood, for ``Code/invalidUTF8``.
  public var bytes: [UInt8] {
    get { box.contents.bytes }
    set { change { $0.bytes = newValue } }
  }

  /// The errors that this one sums up: of an attempt to connect, one for each address that was tried.
  public var causes: [SocketError] {
    get { box.contents.causes }
    set { change { $0.causes = newValue } }
  }

  /// What ``description`` adds about this case in particular.
  public var detail: String {
    get { box.contents.detail }
    set { change { $0.detail = newValue } }
  }

  /// What a closure of the program's threw, for ``Code/rejected``.
  public var underlyingError: (any Error)? { box.contents.underlying }

  private mutating func change(_ body: (inout Contents) -> Void) {
    var contents = box.contents
    body(&contents)
    box = Box(contents)
  }

  /// One sentence that a person can act on.
  public var description: String {
    let what = operation + (address.map { $0.isUnix ? " \(AddressError.quote("\($0)"))" : " \($0)" } ?? "")
    let cause = detail.isEmpty ? code.sentence : detail
    let kernel = errno == 0 ? "" : " (\(SystemError.message(errno)))"
    let done = bytesTransferred == 0 ? "" : ", after \(bytesTransferred) byte\(bytesTransferred == 1 ? "" : "s")"
    return "\(what): \(cause)\(kernel)\(done)"
  }
}

extension SocketError.Code {
  /// What the code means, for a description without anything more particular.
  fileprivate var sentence: String {
    switch self {
    case .closed: "the connection is closed on this side"
    case .connectionReset: "the peer reset the connection"
    case .endOfStream: "the peer finished before all that was asked for had arrived"
    case .timedOut: "the time given is over"
    case .limitExceeded: "the limit is exceeded"
    case .precedingReadFailed: "a read that was enqueued before this one failed"
    case .upgraded: "the connection was upgraded, use the stream that the upgrade returned"
    case .connectionRefused: "nobody listens there"
    case .addressInUse: "another socket uses this address"
    case .addressNotAvailable: "this machine has no such address, or no local port is free"
    case .hostNotFound: "the name has no address"
    case .resolverFailed: "no name server answered"
    case .familyNotSupported: "this machine does not do this kind of address, IPv6 may be off"
    case .scopeMissing: "a link-local address needs its interface, as in fe80::1%eth0"
    case .unreachable: "there is no way to this address"
    case .tooManyOpenFiles: "no file descriptor is free, raise the limit (ulimit -n) or hold fewer connections"
    case .permissionDenied: "this process may not do that"
    case .notASocket: "this is no socket"
    case .pathNotFound: "there is no such path"
    case .notConnected: "the endpoint has no peer"
    case .interfaceNotFound: "this machine has no such interface"
    case .alreadyJoined: "the endpoint is in this group already"
    case .notJoined: "the endpoint is not in this group"
    case .invalidArgument: "an argument makes no sense"
    case .invalidUTF8: "the text is not UTF-8"
    case .rejected: "a closure of the program's refused"
    case .layerFailed: "a layer above the stream failed"
    case .reactorShutDown: "the reactor was shut down"
    default: "the system call failed"
    }
  }

  /// The code that goes with an error number.
  init(errno: Int32) {
    self =
      switch errno {
      case Errno.connectionReset, Errno.brokenPipe, Errno.connectionAborted: .connectionReset
      case Errno.timedOut: .timedOut
      case Errno.connectionRefused: .connectionRefused
      case Errno.addressInUse: .addressInUse
      case Errno.addressNotAvailable: .addressNotAvailable
      case Errno.familyNotSupported: .familyNotSupported
      case Errno.networkUnreachable, Errno.hostUnreachable, Errno.networkDown, Errno.hostDown: .unreachable
      case Errno.processDescriptors, Errno.systemDescriptors: .tooManyOpenFiles
      case Errno.permissionDenied, Errno.notPermitted, Errno.readOnly: .permissionDenied
      case Errno.notSocket: .notASocket
      case Errno.tooManyReferences, Errno.messageTooLong: .limitExceeded
      default: .system
      }
  }
}

extension SocketError {
  /// What a failed system call means for `operation`.
  package init(_ error: SystemError, operation: String, address: SocketAddress? = nil) {
    let code = Code(errno: error.errno)
    let cause = address.flatMap { FailureCause(error, at: $0) }
    let detail = cause?.detail ?? (code == .system ? "\(error.call) failed" : "")
    self.init(cause?.code ?? code, operation: operation, detail: detail, errno: error.errno, address: address)
  }

  /// What a layer above the stream failed with: operations throw it as it is.
  package init(layer error: any Error, operation: String) {
    self.init(.layerFailed, operation: operation, detail: "\(error)", underlyingError: error)
  }

  /// What a layer failed with, if it did.
  var layerError: (any Error)? { code == .layerFailed ? underlyingError : nil }

  /// What an operation throws that failed with this.
  var thrown: any Error { layerError ?? self }

  /// The same error, said of another operation.
  package func during(_ operation: String) -> SocketError {
    var error = self
    if code != .invalidArgument, address == nil { error.operation = operation }
    return error
  }

  static func invalid(_ operation: String, _ detail: String) -> SocketError {
    SocketError(.invalidArgument, operation: operation, detail: detail)
  }
}
