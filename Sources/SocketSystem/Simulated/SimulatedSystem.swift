// Where system calls go in a simulation.
//
// A simulation answers the calls on its own sockets. Everything above the calls runs unchanged, so a simulated program exercises the code
// that it runs on Linux.
//
// Invariants:
// - The number of a descriptor says whether it is simulated: at least `SimulatedDescriptors.first`. No process of Linux can have that many.
//   So the real path costs one comparison with a constant in each call.
// - A call on a simulated descriptor goes to the simulation of the calling thread. On a thread without one it fails with EBADF, and
//   closing does nothing, because the simulation has ended.
// - A thread in a simulation makes only simulated sockets.
// - A number from `SimulatedDescriptors.firstOfKernel` on stands for a descriptor of the kernel, whose calls a system answers with those
//   of the kernel and with faults (`FaultySystem`). The number says which descriptor it is. So closing it on any thread closes that.

import Glibc

/// The system calls that a simulation answers. Each method corresponds to the call of its name; those that return a number return
/// `-errno` when they fail.
package protocol SimulatedSystem: AnyObject {
  /// socket(2), nonblocking.
  func socket(family: Int32, type: Int32) -> Int32
  /// close(2).
  func close(_ number: Int32)
  /// dup(2).
  func duplicate(_ number: Int32) -> Int32
  /// getrlimit(2) of RLIMIT_NOFILE, for the host whose code runs.
  var descriptorLimit: Int { get }
  /// The number that a descriptor has on its host, which is below that limit.
  func localNumber(of number: Int32) -> Int32
  /// The number on its host that the next descriptor would get; `nil` if the limit is reached.
  var nextLocalNumber: Int32? { get }

  /// bind(2). The unnamed unix address asks for any free abstract name.
  func bind(_ number: Int32, to address: SocketAddress) -> Int32
  func listen(_ number: Int32, backlog: Int32) -> Int32
  func connect(_ number: Int32, to address: SocketAddress) -> Int32
  /// accept4(2): the new descriptor and the address of its peer.
  func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?)
  /// shutdown(2), with SHUT_WR or SHUT_RDWR.
  func shutdown(_ number: Int32, how: Int32) -> Int32
  /// recv(2). Appends at most `limit` bytes, and no more than there is room for; with `peeking`, the bytes stay.
  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int
  /// send(2).
  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int

  /// sendmsg(2) with SCM_RIGHTS. It fails with ENOSYS if the simulation cannot pass one of the descriptors.
  func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptors: [Int32]) -> Int
  /// recvmsg(2) with room for `most` descriptors.
  func receive(
    _ number: Int32, into memory: inout OutputSpan<UInt8>, descriptors most: Int
  ) -> (count: Int, rights: SimulatedRights)

  /// sendmsg(2) of a datagram, to an address or to the connected peer. It passes descriptors as the call above does.
  func send(
    _ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?,
    passing descriptors: [Int32]
  ) -> Int
  /// recvmsg(2) of a datagram, with room for `most` descriptors.
  func receiveDatagram(_ number: Int32, descriptors most: Int) -> (result: Int32, datagram: SimulatedDatagram?)
  /// What a fault does to a transfer of datagrams or descriptors that the kernel makes, on a descriptor from `firstOfKernel` on.
  ///
  /// - Returns: The number of bytes that a stream may move, at most `count`; or a negative error.
  func allowance(ofTransfer number: Int32, atMost count: Int, isReceive: Bool) -> Int
  /// connect(2) with AF_UNSPEC.
  func disconnect(_ number: Int32) -> Int32
  /// setsockopt(2) with MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, MCAST_JOIN_SOURCE_GROUP or MCAST_LEAVE_SOURCE_GROUP.
  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32
  /// getsockopt(2) with MCAST_MSFILTER: whether a socket is in a group on an interface, for a source if there is one.
  func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool
  /// recvmsg(2) with MSG_ERRQUEUE: the next error that a host or router reported; `nil` if the queue is empty.
  func takeReportedError(_ number: Int32) -> ReportedError?

  /// Whether the two calls below answer for the files of unix sockets; otherwise they are those of Linux.
  var hasSocketFiles: Bool { get }
  /// The inode number of the file that bind(2) made for a unix socket, on the host whose code runs; `nil` if there is no such file.
  func inode(of path: UnixPath) -> UInt64?
  /// unlink(2) of such a file.
  func unlink(_ path: UnixPath) -> Int32

  /// getsockname(2), or getpeername(2).
  func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?)
  /// setsockopt(2).
  func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32
  /// getsockopt(2).
  func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: [UInt8])
  /// getsockopt(2) with TCP_INFO.
  func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?)
  /// ioctl(2) with FIONREAD.
  func receivableBytes(_ number: Int32) -> Int
  /// ioctl(2) with SIOCOUTQ.
  func unacknowledgedBytes(_ number: Int32) -> Int

  /// epoll_create1(2).
  ///
  /// - Parameter whenReady: Called when events wait that did not before.
  /// - Returns: The descriptor, or a negative error.
  func createEpoll(whenReady: @escaping () -> Void) -> Int32
  /// epoll_ctl(2) with EPOLL_CTL_ADD, or with EPOLL_CTL_MOD. Edge-triggered.
  func watch(_ number: Int32, with epoll: Int32, token: UInt64, interest: Readiness, isNew: Bool) -> Int32
  /// epoll_ctl(2) with EPOLL_CTL_DEL.
  func stopWatching(_ number: Int32, with epoll: Int32)
  /// epoll_wait(2). A simulation does not wait.
  ///
  /// - Returns: The number of events.
  func waitForEvents(
    of epoll: Int32, into events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64
  ) -> Int

  /// getaddrinfo(3): the addresses of a host.
  func addresses(of name: String, isIPv4: Bool) -> [SocketAddress]
  /// getifaddrs(3), for the host whose code runs.
  var interfaces: [NetworkInterface] { get }
}

extension SimulatedSystem {
  /// A simulation has no descriptors of the kernel.
  package func allowance(ofTransfer number: Int32, atMost count: Int, isReceive: Bool) -> Int { -Int(EBADF) }
}

/// The descriptors that a simulated socket received: SCM_RIGHTS.
package struct SimulatedRights {
  /// The descriptors. The receiver has to close them.
  package var numbers: [Int32] = []
  /// Whether some were lost, because there was no room or no free number for them: MSG_CTRUNC.
  package var areTruncated = false

  package init() {}
}

/// A datagram that a simulated socket received.
package struct SimulatedDatagram {
  package let bytes: [UInt8]
  /// The sender's address, in the form that programs of the socket's family see; `nil` for a unix socket without a name.
  package let address: SocketAddress?
  package let metadata: DatagramMetadata
  package let rights: SimulatedRights

  package init(
    bytes: [UInt8], address: SocketAddress?, metadata: DatagramMetadata, rights: SimulatedRights = SimulatedRights()
  ) {
    self.bytes = bytes
    self.address = address
    self.metadata = metadata
    self.rights = rights
  }
}

/// The descriptors of simulated sockets.
package enum SimulatedDescriptors {
  /// The lowest number. The kernel's own limit, /proc/sys/fs/nr_open, cannot be raised that far.
  package static let first: Int32 = 1 << 30
  /// The lowest number that stands for a descriptor of the kernel: for the descriptor 0.
  package static let firstOfKernel: Int32 = 7 << 28

  /// Holds a simulation for `system`.
  package final class Place {
    fileprivate let system: any SimulatedSystem
    package init(_ system: any SimulatedSystem) { self.system = system }
  }

  private static let place = ThreadLocal<Place>(.simulation)

  /// The simulation that the calling thread belongs to; `nil` outside of simulations.
  package static var system: (any SimulatedSystem)? { place.object?.system }

  /// Runs `body` on the calling thread in a simulation, or outside of any if it is `nil`.
  package static func using<Result, Failure>(
    _ simulation: Place?, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let before = place.object
    place.object = simulation
    defer { place.object = before }
    return try body()
  }

  /// Closes a descriptor of a simulation, or one that stands for a descriptor of the kernel.
  @inline(never)
  static func close(_ number: Int32) {
    system?.close(number)
    if number >= firstOfKernel { _ = Glibc.close(number - firstOfKernel) }
  }
}

extension BorrowedDescriptor {
  /// Whether a simulation answers the calls on this descriptor.
  @inline(__always) var isSimulated: Bool { number >= SimulatedDescriptors.first }

  /// The number that the kernel knows, for code that makes system calls of its own.
  package var kernelNumber: Int32 {
    number >= SimulatedDescriptors.firstOfKernel ? number - SimulatedDescriptors.firstOfKernel : number
  }

  /// Whether this stands for a descriptor of the kernel.
  var isOfKernel: Bool { number >= SimulatedDescriptors.firstOfKernel }
  /// The descriptor of the kernel for which this one stands, or this one.
  var ofKernel: BorrowedDescriptor { BorrowedDescriptor(kernelNumber) }

  /// Asks what a fault does to a transfer that the kernel makes on `ofKernel`.
  ///
  /// - Returns: The number of bytes that a stream may move, at most `count`; or a negative error.
  @inline(never)
  func allowance(atMost count: Int = 1, isReceive: Bool) -> Int {
    simulatedTransfer { $0.allowance(ofTransfer: number, atMost: count, isReceive: isReceive) }
  }

  /// Returns `ofKernel` for a call that transfers datagrams. Throws the error of a fault that hits the call.
  func unlessFaulty(_ call: String, isReceive: Bool) throws(SystemError) -> BorrowedDescriptor {
    let allowed = allowance(isReceive: isReceive)
    if allowed < 0 { throw SystemError(call: call, errno: Int32(-allowed)) }
    return ofKernel
  }

  /// Makes a call that a simulation answers.
  @inline(never)
  func simulated(_ call: String, _ body: (any SimulatedSystem) -> Int32) throws(SystemError) -> Int32 {
    let result = SimulatedDescriptors.system.map(body) ?? -EBADF
    if result < 0 { throw SystemError(call: call, errno: -result) }
    return result
  }

  /// Makes a transfer that a simulation answers.
  @inline(never)
  func simulatedTransfer(_ body: (any SimulatedSystem) -> Int) -> Int {
    SimulatedDescriptors.system.map(body) ?? -Int(EBADF)
  }
}

extension OutputSpan<UInt8> {
  /// Appends copies of bytes of an array, as many as fit.
  ///
  /// - Returns: The number of bytes.
  @discardableResult
  package mutating func append(_ bytes: [UInt8], in range: Range<Int>) -> Int {
    let count = min(range.count, freeCapacity)
    // SAFETY: both ranges are inside their memory, and an array's memory is not that of an output span.
    unsafe withUnsafeMutableBufferPointer { memory, initialized in
      unsafe bytes.withUnsafeBytes { source in
        let target = UnsafeMutableRawBufferPointer(memory)
        unsafe UnsafeMutableRawBufferPointer(rebasing: target[initialized...]).copyMemory(
          from: UnsafeRawBufferPointer(rebasing: source[range.prefix(count)]))
      }
      initialized += count
    }
    return count
  }
}
