internal import SocketSystem

/// A fault of system calls on a simulated host, or on the real reactor of a ``FaultInjection``: what a kernel under pressure does, or does
/// at an unlucky moment.
///
/// ```swift
/// server.setFaults([.fail(.accept, with: .noBufferSpace, probability: 0.01), .shortReads(probability: 0.5)])
/// ```
///
/// The seed of the simulation or of the reactor decides which calls are hit.
public struct CallFault: Hashable, Sendable {
  /// The system calls that can fail.
  public enum Call: Hashable, Sendable {
    /// Creating a socket: socket(2).
    case socket
    /// Giving a socket its address: bind(2).
    case bind
    /// Starting to listen: listen(2).
    case listen
    /// Connecting: connect(2).
    case connect
    /// Accepting a connection: accept4(2).
    case accept
    /// Receiving bytes or datagrams: recv(2), recvmsg(2), recvmmsg(2).
    case receive
    /// Sending bytes, files or datagrams: send(2), sendmsg(2), sendfile(2), sendmmsg(2).
    case send
    /// Ending one direction of a connection: shutdown(2).
    case shutdown
  }

  /// The error numbers of errno(3) that calls can fail with.
  public struct ErrorNumber: RawRepresentable, Hashable, Sendable {
    /// The number.
    public let rawValue: Int32

    /// Creates an error from its number, for example `EPERM`.
    ///
    /// - Parameter rawValue: The number, at least 1.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// ENOBUFS: the kernel has no memory for buffers.
    public static let noBufferSpace = ErrorNumber(rawValue: Errno.noBuffers)
    /// ENOMEM: the kernel has no memory.
    public static let noMemory = ErrorNumber(rawValue: Errno.noMemory)
    /// EMFILE: the process has no descriptor left.
    public static let tooManyOpenFiles = ErrorNumber(rawValue: Errno.processDescriptors)
    /// ENFILE: the system has no descriptor left.
    public static let tooManyOpenFilesInSystem = ErrorNumber(rawValue: Errno.systemDescriptors)
    /// ECONNABORTED: the connection ended before it was accepted.
    public static let connectionAborted = ErrorNumber(rawValue: Errno.connectionAborted)
    /// ECONNRESET: the peer has reset the connection.
    public static let connectionReset = ErrorNumber(rawValue: Errno.connectionReset)
    /// EADDRNOTAVAIL: no local port is free.
    public static let addressNotAvailable = ErrorNumber(rawValue: Errno.addressNotAvailable)
    /// ENETUNREACH: no route leads to the network.
    public static let networkUnreachable = ErrorNumber(rawValue: Errno.networkUnreachable)
  }

  enum Kind: Hashable {
    case fail(Call, ErrorNumber)
    case shortReads
    case shortWrites
    case spuriousReadiness
    case emfile(after: Int)
  }

  let kind: Kind
  let probability: Double

  /// Lets a call fail without any effect.
  ///
  /// - Parameters:
  ///   - call: The call.
  ///   - error: The error that it reports.
  ///   - probability: The fraction of the calls that fail, 0 to 1.
  /// - Returns: The fault.
  public static func fail(_ call: Call, with error: ErrorNumber, probability: Double) -> CallFault {
    CallFault(kind: .fail(call, error), probability: probability)
  }

  /// Lets a receive return only a part of the bytes that have arrived, as if the others arrived just after it.
  ///
  /// - Parameter probability: The fraction of the receives that are cut short, 0 to 1.
  /// - Returns: The fault.
  public static func shortReads(probability: Double) -> CallFault {
    CallFault(kind: .shortReads, probability: probability)
  }

  /// Lets a send take only a part of the bytes for which there is room, as if the room for the others came just after it.
  ///
  /// - Parameter probability: The fraction of the sends that are cut short, 0 to 1.
  /// - Returns: The fault.
  public static func shortWrites(probability: Double) -> CallFault {
    CallFault(kind: .shortWrites, probability: probability)
  }

  /// Lets a poll for events also report a socket as readable and writable that is neither: epoll(7) allows that.
  ///
  /// - Parameter probability: The fraction of the polls with such an event, 0 to 1.
  /// - Returns: The fault.
  public static func spuriousReadiness(probability: Double) -> CallFault {
    CallFault(kind: .spuriousReadiness, probability: probability)
  }

  /// Lets the descriptors of the process run out. The first `count` calls of socket(2) and accept4(2) that make a descriptor succeed.
  /// From then on both calls fail with EMFILE, until faults are set anew. Closing a socket does not end the shortage, because
  /// something else in the process takes each descriptor that becomes free.
  ///
  /// - Parameter count: The number of descriptors that are still made, at least 0. Those that the process has already do not count.
  /// - Returns: The fault.
  public static func emfile(after count: Int) -> CallFault { CallFault(kind: .emfile(after: count), probability: 1) }
}

/// Decides which calls of a host are hit: a pure state machine. Without faults it draws no random numbers. `made` counts only calls that
/// succeeded.
struct FaultPlan {
  private let faults: [CallFault]
  private var random: SplitMix
  private var made = 0

  init(_ faults: [CallFault] = [], seed: UInt64 = 0) {
    self.faults = faults
    random = SplitMix(seed: seed)
  }

  var isEmpty: Bool { faults.isEmpty }

  /// A negative error; `nil` if the call does not fail.
  mutating func error(of call: CallFault.Call) -> Int32? {
    for fault in faults {
      guard case .fail(call, let error) = fault.kind else { continue }
      if random.fraction() < fault.probability { return -error.rawValue }
    }
    return nil
  }

  /// Calls `body` unless a fault hits the call. Both return the descriptor, or a negative error.
  mutating func makeDescriptor(_ call: CallFault.Call, _ body: () -> Int32) -> Int32 {
    if let error = error(of: call) { return error }
    for fault in faults {
      if case .emfile(let most) = fault.kind, made >= most { return -Errno.processDescriptors }
    }
    let result = body()
    if result >= 0 { made += 1 }
    return result
  }

  mutating func shortened(_ count: Int, isRead: Bool) -> Int {
    let kind: CallFault.Kind = isRead ? .shortReads : .shortWrites
    guard count > 1, hits(kind) else { return count }
    return 1 + Int(random.next(upTo: UInt64(count - 1)))
  }

  /// The index, below `count`, of a socket that is reported although it is not ready; mostly `nil`.
  mutating func spurious(of count: Int) -> Int? {
    guard count > 0, hits(.spuriousReadiness) else { return nil }
    return Int(random.next(upTo: UInt64(count)))
  }

  /// The events that are reported without a reason. The end of the peer is not among them, because programs may rely on that event.
  static func spuriousReadiness(_ interest: Readiness) -> Readiness {
    Readiness(rawValue: interest.rawValue & Readiness.readable.union(.writable).rawValue)
  }

  private mutating func hits(_ kind: CallFault.Kind) -> Bool {
    for fault in faults where fault.kind == kind { if random.fraction() < fault.probability { return true } }
    return false
  }
}
