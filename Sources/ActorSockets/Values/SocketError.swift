package import SocketSystem

/// An error of an operation on a socket.
///
/// To handle an error, compare its ``code``; its description is for people. Cancellation is reported by `CancellationError`,
/// not by this type.
public struct SocketError: Error, Sendable, CustomStringConvertible {
  /// The cause of an error. New codes may be added; treat unknown ones like ``system``.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The name of the code, without the leading dot of `.timedOut`.
    public let description: String

    private init(_ name: String) { description = name }

    /// The connection was closed by this program, or its writing side was finished.
    public static let closed = Code("closed")
    /// The peer reset the connection: ECONNRESET, EPIPE, ECONNABORTED.
    public static let connectionReset = Code("connectionReset")
    /// The peer finished before all requested bytes had arrived, or a drain has ended the idle reads of the connection, so that no more are
    /// received (see ``Drain/IdleReads``). The bytes that did arrive can still be read.
    public static let endOfStream = Code("endOfStream")
    /// The timeout expired. Bytes that had arrived stay buffered for the next read.
    public static let timedOut = Code("timedOut")
    /// A maximum length or a budget was exceeded. Bytes that had arrived stay buffered.
    public static let limitExceeded = Code("limitExceeded")
    /// The peer did not read fast enough, so the connection was aborted: see
    /// ``WriteOverflowAction/abort``.
    public static let peerTooSlow = Code("peerTooSlow")
    /// A read that was enqueued before this one failed, so this one would have read the wrong bytes. It consumed no bytes. If the read
    /// that failed was the answer to a question, the stream has ended: see ``ByteStream/ask(_:for:timeout:)-([UInt8],_,_)``.
    public static let precedingReadFailed = Code("precedingReadFailed")
    /// The stream was upgraded: use the stream that the upgrade returned.
    public static let upgraded = Code("upgraded")
    /// No socket listens at the address: ECONNREFUSED.
    public static let connectionRefused = Code("connectionRefused")
    /// Another socket uses the address: EADDRINUSE.
    public static let addressInUse = Code("addressInUse")
    /// No interface of this machine has the address, or no local port is free: EADDRNOTAVAIL.
    public static let addressNotAvailable = Code("addressNotAvailable")
    /// The name has no address.
    public static let hostNotFound = Code("hostNotFound")
    /// The name could not be looked up, for example because no name server answered.
    public static let resolverFailed = Code("resolverFailed")
    /// This machine does not support this kind of address, for example because IPv6 is off: EAFNOSUPPORT.
    public static let familyNotSupported = Code("familyNotSupported")
    /// A link-local address lacks its interface: `fe80::1` instead of `fe80::1%eth0`.
    public static let scopeMissing = Code("scopeMissing")
    /// There is no route to the address: ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN. Also if connecting to several
    /// addresses failed for different reasons.
    public static let unreachable = Code("unreachable")
    /// The process or the system has no descriptor left: EMFILE, ENFILE.
    public static let tooManyOpenFiles = Code("tooManyOpenFiles")
    /// The operation is not permitted: EACCES, EPERM, EROFS.
    public static let permissionDenied = Code("permissionDenied")
    /// A descriptor or a path that should be a socket is something else: a directory, a file, a pipe.
    public static let notASocket = Code("notASocket")
    /// The path does not exist, or the directory to create a socket in does not exist: ENOENT, ENOTDIR.
    public static let pathNotFound = Code("pathNotFound")
    /// Something is at the path already, or in the directory that should be removed: EEXIST, ENOTEMPTY. See ``Disk``.
    public static let pathExists = Code("pathExists")
    /// The disk has no room, or the user's quota is used up: ENOSPC, EDQUOT. What has been written remains.
    public static let diskFull = Code("diskFull")
    /// The disk could not read or write: EIO. After a failed ``DiskFile/synchronize()``, writes may be missing on the disk.
    public static let diskFailed = Code("diskFailed")
    /// The endpoint has no peer, and the datagram has no destination.
    public static let notConnected = Code("notConnected")
    /// This machine does not have this interface, or the interface does not support multicast: ENODEV.
    public static let interfaceNotFound = Code("interfaceNotFound")
    /// The endpoint has already joined this multicast group.
    public static let alreadyJoined = Code("alreadyJoined")
    /// The endpoint has not joined this multicast group.
    public static let notJoined = Code("notJoined")
    /// An argument is not valid: a negative length, an empty delimiter, port 0 to connect to.
    public static let invalidArgument = Code("invalidArgument")
    /// Text is not valid UTF-8. ``SocketError/bytes`` holds it; it was consumed.
    public static let invalidUTF8 = Code("invalidUTF8")
    /// A parser of the program refused the bytes by throwing; ``SocketError/underlyingError`` is its error. The bytes stay buffered.
    public static let invalidMessage = Code("invalidMessage")
    /// A closure of the program refused by throwing; ``SocketError/underlyingError`` is its error.
    public static let rejected = Code("rejected")
    /// A layer above the stream failed, for example TLS; ``SocketError/underlyingError`` is its error. Used only in a
    /// ``CloseReport``, because operations throw the layer's own error.
    public static let layerFailed = Code("layerFailed")
    /// The proxy did not answer as its protocol demands, or ended the conversation: see ``TCPConnection/Configuration/proxy``.
    public static let proxyFailed = Code("proxyFailed")
    /// The proxy rejected the credentials, or requires credentials or a method that is not supported.
    public static let proxyAuthenticationFailed = Code("proxyAuthenticationFailed")
    /// The proxy could not connect to the target, or refused to.
    public static let proxyRefused = Code("proxyRefused")
    /// The PROXY header of an accepted connection is missing, not valid, or does not come from a trusted network: see
    /// ``TCPListener/Configuration/proxyProtocol``.
    public static let invalidProxyHeader = Code("invalidProxyHeader")
    /// The reactor was shut down.
    public static let reactorShutDown = Code("reactorShutDown")
    /// Any other failure; see ``SocketError/errno``.
    public static let system = Code("system")
  }

  /// All properties in one reference, because connections have room for several errors and rarely have one.
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

  /// Creates an error.
  ///
  /// - Parameters:
  ///   - code: The cause.
  ///   - operation: The operation that failed, for example `"read"`.
  ///   - detail: A clause about this case. It becomes part of ``description``, so escape text from a peer.
  ///   - errno: The errno of the system call, or 0.
  ///   - address: The address that the operation used.
  ///   - bytesTransferred: The number of bytes that were transferred before the failure.
  ///   - bytes: The bytes that are not valid.
  ///   - causes: The errors that this one summarizes. The detail should name them.
  ///   - underlyingError: The error that a closure of the program threw.
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

  /// The operation that failed, for example `"read"` or `"connect"`.
  public var operation: String {
    get { box.contents.operation }
    set { change { $0.operation = newValue } }
  }

  /// The errno of the system call that failed, or 0.
  public var errno: Int32 {
    get { box.contents.errno }
    set { change { $0.errno = newValue } }
  }

  /// The address that the operation used, if there is one.
  public var address: SocketAddress? {
    get { box.contents.address }
    set { change { $0.address = newValue } }
  }

  /// The number of bytes that the operation transferred before it failed. For a write: the bytes that the kernel took.
  public var bytesTransferred: Int {
    get { box.contents.bytesTransferred }
    set { change { $0.bytesTransferred = newValue } }
  }

  /// The bytes that are not valid, for ``Code/invalidUTF8``.
  public var bytes: [UInt8] {
    get { box.contents.bytes }
    set { change { $0.bytes = newValue } }
  }

  /// The errors that this one summarizes. For connecting: one for each address that was tried.
  public var causes: [SocketError] {
    get { box.contents.causes }
    set { change { $0.causes = newValue } }
  }

  /// The part of ``description`` that is specific to this case.
  public var detail: String {
    get { box.contents.detail }
    set { change { $0.detail = newValue } }
  }

  /// The error that a closure of the program threw, for ``Code/rejected`` and ``Code/invalidMessage``; the layer's error, for
  /// ``Code/layerFailed``.
  public var underlyingError: (any Error)? { box.contents.underlying }

  /// Whether any peer can cause the error whenever it wants to. A server need not report such errors. These are the causes:
  ///
  /// - The peer reset the connection, or ended it within a message.
  /// - The peer did not answer in time, or did not read fast enough.
  /// - The peer sent more than a limit allows.
  /// - The peer sent invalid UTF-8, an invalid message or an invalid PROXY header.
  public var isCausedByPeer: Bool {
    switch code {
    case .connectionReset, .endOfStream, .timedOut, .limitExceeded, .invalidUTF8, .invalidMessage, .invalidProxyHeader,
      .peerTooSlow:
      true
    case .layerFailed: underlyingError.map { Self.isCausedByPeer($0) } ?? false
    default: false
    }
  }

  /// Returns whether a peer can cause the error freely: the property ``isCausedByPeer`` of a ``NetworkError``.
  ///
  /// Use it for errors of handlers, which may be of either type. ``ServeFailure/isCausedByPeer`` is the same for what a server reports.
  ///
  /// - Parameter error: An error of any type.
  /// - Returns: Whether a peer caused it; `false` for errors of other types, and for `CancellationError`.
  public static func isCausedByPeer(_ error: any Error) -> Bool {
    (error as? any NetworkError)?.isCausedByPeer ?? false
  }

  private mutating func change(_ body: (inout Contents) -> Void) {
    var contents = box.contents
    body(&contents)
    box = Box(contents)
  }

  /// A description in one sentence that a person can act on.
  public var description: String {
    let peer = address.map { $0.isUnix ? AddressError.quote("\($0)") : "\($0)" }
    let what = operation + (peer.map { "\(preposition) \($0)" } ?? "")
    let kernel = errno == 0 ? "" : " (\(SystemError.message(errno)))"
    let bytes = "\(bytesTransferred) byte\(bytesTransferred == 1 ? "" : "s")"
    let done =
      switch (bytesTransferred, code) {
      case (0, _): ""
      case (_, .timedOut): " with \(bytes) \(preposition == " to" ? "sent" : "received")"
      default: ", after \(bytes)"
      }
    return "\(what): \(cause)\(kernel)\(done)"
  }

  var cause: String { detail.isEmpty ? code.sentence : detail }

  private var preposition: String {
    switch operation {
    case "read", "withBytes", "receive", "PROXY header": " from"
    case "write", "send", "flush": " to"
    case "accept": " on"
    default: ""
    }
  }
}

extension SocketError.Code {
  fileprivate var sentence: String {
    switch self {
    case .closed: "the connection is closed on this side"
    case .connectionReset: "the peer reset the connection"
    case .endOfStream: "the peer finished before all requested bytes had arrived"
    case .timedOut: "the timeout expired"
    case .limitExceeded: "the limit is exceeded"
    case .peerTooSlow: "the peer did not read fast enough"
    case .precedingReadFailed: "a read that was enqueued before this one failed"
    case .upgraded: "the connection was upgraded; use the stream that the upgrade returned"
    case .connectionRefused: "no process listens at this address"
    case .addressInUse: "another socket uses this address"
    case .addressNotAvailable: "this machine does not have the address, or every local port is in use"
    case .hostNotFound: "the name has no address"
    case .resolverFailed: "no name server answered"
    case .familyNotSupported: "this machine does not support this kind of address; IPv6 may be off"
    case .scopeMissing: "a link-local address needs its interface, as in fe80::1%eth0"
    case .unreachable: "no route leads to this address"
    case .tooManyOpenFiles: "no file descriptor is free; raise the limit (ulimit -n) or hold fewer connections"
    case .permissionDenied: "this process does not have the permission"
    case .notASocket: "the descriptor is not a socket"
    case .pathNotFound: "the path does not exist"
    case .pathExists: "there is something at this path"
    case .diskFull: "the disk has no room"
    case .diskFailed: "the disk could not read or write"
    case .notConnected: "the endpoint has no peer"
    case .interfaceNotFound: "this machine does not have the interface"
    case .alreadyJoined: "the endpoint is in this group already"
    case .notJoined: "the endpoint is not in this group"
    case .invalidArgument: "an argument is invalid"
    case .invalidUTF8: "the text is not UTF-8"
    case .invalidMessage: "the bytes are not a valid message"
    case .rejected: "a closure of the program refused"
    case .layerFailed: "a layer above the stream failed"
    case .proxyFailed: "the proxy did not answer as its protocol demands"
    case .proxyAuthenticationFailed: "the proxy rejected the credentials, or requires some"
    case .proxyRefused: "the proxy did not connect"
    case .invalidProxyHeader: "the PROXY header is missing or not valid"
    case .reactorShutDown: "the reactor was shut down"
    default: "the system call failed"
    }
  }

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
  package init(_ error: SystemError, operation: String, address: SocketAddress? = nil) {
    let code = Code(errno: error.errno)
    let cause = address.flatMap { FailureCause(error, at: $0) } ?? FailureCause(error)
    let detail = cause?.detail ?? (code == .system ? "\(error.call) failed" : "")
    self.init(cause?.code ?? code, operation: operation, detail: detail, errno: error.errno, address: address)
  }

  /// Operations throw the layer's error unchanged.
  package init(layer error: any Error, operation: String) {
    self.init(.layerFailed, operation: operation, detail: "\(error)", underlyingError: error)
  }

  var layerError: (any Error)? { code == .layerFailed ? underlyingError : nil }

  package var thrown: any Error { layerError ?? self }

  /// An error that names an address, or is about an argument, keeps its operation.
  package func during(_ operation: String) -> SocketError {
    var error = self
    if code != .invalidArgument, address == nil { error.operation = operation }
    return error
  }

  static func invalid(_ operation: String, _ detail: String) -> SocketError {
    SocketError(.invalidArgument, operation: operation, detail: detail)
  }
}
