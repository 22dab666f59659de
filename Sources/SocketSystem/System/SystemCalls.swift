// Every call on a socket goes to a system: to Linux, to a simulation, or to a decorator of either. `CurrentSystem` chooses it.
//
// Invariants:
// - A result that is a number is that of the system call, or `-errno` if the call failed, as the kernel itself returns it. The callers in
//   this module give errors the name of the call. A method that throws, or that returns a `FileTransfer`, gives it itself.
// - A call that a signal interrupts is made again. So no method returns `-EINTR`.
// - Sockets are nonblocking, and closed on exec.
// - A method that is named after a system call makes that call, or answers as Linux does.

/// The system calls that this module makes on sockets, and those for which a simulation needs answers of its own.
package protocol SystemCalls {
  /// Whether code may wait for other threads, such as those of Swift's pool. If not, no call blocks, and looking up a name neither.
  var mayWaitForThreads: Bool { get }
  /// Whether this system answers the calls on a descriptor. Linux answers the others. Asked only on a thread that runs in this system.
  func owns(_ number: Int32) -> Bool

  // MARK: Descriptors

  /// `type` is SOCK_STREAM or SOCK_DGRAM.
  func socket(family: Int32, type: Int32) -> Int32
  /// socket(2) and bind(2): a socket that becomes readable when an interface or an address of one changes, rtnetlink(7).
  func interfaceSocket() -> Int32
  func close(_ number: Int32)
  /// fcntl(2) with F_DUPFD_CLOEXEC.
  func duplicate(_ number: Int32) -> Int32
  /// fcntl(2): makes a descriptor from elsewhere nonblocking, or closed on exec only.
  func prepare(_ number: Int32, nonblocking: Bool) -> Int32
  /// Another reactor has the descriptor from now on, and closes it.
  func forget(_ number: Int32)
  /// getrlimit(2) of RLIMIT_NOFILE, for the program whose code runs. From now on `isReserved` uses this limit.
  func readDescriptorLimit() -> Int
  func isReserved(_ number: Int32) -> Bool
  /// Whether the next descriptor of the program that has this one would leave the reserve free.
  func leavesReserve(_ number: Int32) -> Bool

  // MARK: Sockets

  /// The unnamed unix address asks for any free abstract name.
  func bind(_ number: Int32, to address: SocketAddress) -> Int32
  func listen(_ number: Int32, backlog: Int32) -> Int32
  /// `-EINPROGRESS` if the attempt continues.
  func connect(_ number: Int32, to address: SocketAddress) -> Int32
  /// connect(2) with AF_UNSPEC, of a datagram socket.
  func disconnect(_ number: Int32) -> Int32
  /// Resets the connection of a TCP socket: connect(2) with AF_UNSPEC. The peer sees a reset even if other descriptors refer to the socket.
  func reset(_ number: Int32) -> Int32
  func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?)
  /// With SHUT_WR or SHUT_RDWR.
  func shutdown(_ number: Int32, how: Int32) -> Int32
  func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?)
  func isReadable(_ number: Int32) -> Bool

  // MARK: Streams

  /// recv(2). Appends at most `limit` bytes, and no more than there is room for; with `peeking`, the bytes stay.
  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int
  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int
  /// sendmsg(2) of at most `BorrowedDescriptor.maximumPieces` pieces, the first from `offset` on.
  func send(_ number: Int32, gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Int
  /// sendfile(2). `file` is a descriptor of Linux.
  func send(_ number: Int32, file: Int32, from offset: Int, count: Int) -> FileTransfer
  /// sendmsg(2) with SCM_RIGHTS. The descriptor travels with the first byte.
  func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptor: Int32) -> Int
  /// recvmsg(2) with room for all descriptors that one message can carry.
  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>) -> (count: Int, rights: ReceivedRights)
  /// ioctl(2) with FIONREAD.
  func receivableBytes(_ number: Int32) -> Int
  /// recv(2) with MSG_PEEK.
  func hasReceivableBytes(_ number: Int32) -> Bool
  /// ioctl(2) with SIOCOUTQ.
  func unacknowledgedBytes(_ number: Int32) -> Int

  // MARK: Datagrams

  /// sendto(2), or send(2) to the connected peer.
  func send(_ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?) -> Int
  /// recvmmsg(2): the number of messages that the batch received.
  func receive(_ number: Int32, into batch: DatagramBatch, _ request: DatagramBatch.Request) -> Int
  /// sendmmsg(2): the number of datagrams of the batch that were sent.
  func send(_ number: Int32, _ batch: DatagramBatch) -> Int
  /// setsockopt(2) with MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, MCAST_JOIN_SOURCE_GROUP or MCAST_LEAVE_SOURCE_GROUP.
  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32
  /// getsockopt(2) with MCAST_MSFILTER.
  func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool
  /// recvmsg(2) with MSG_ERRQUEUE; `nil` if the queue is empty.
  func takeReportedError(_ number: Int32) -> ReportedError?

  // MARK: Options

  func setOption(_ option: RawOption, of number: Int32, to value: Int32) -> Int32
  func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32
  func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: Int32)
  func option(_ option: RawOption, of number: Int32, atMost count: Int) -> (result: Int32, value: [UInt8])
  /// getsockopt(2) with TCP_INFO.
  func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?)

  // MARK: Events

  /// A simulation calls `wake` when events wait that did not before, and when its poller is woken, because nothing waits in it. Linux
  /// does not use it. Throws, for example, if no descriptor is free.
  func makePoller(_ wake: @escaping @Sendable () -> Void) throws(SystemError) -> any Poller

  // MARK: The files of unix sockets

  /// stat(2), or lstat(2) for a link itself; `nil` if the call fails.
  func status(of path: UnixPath, followingLinks: Bool) -> FileStatus?
  /// open(2) with O_PATH; `nil` if nothing is there.
  func hold(_ path: UnixPath) throws(SystemError) -> HeldFile?
  func openDirectory(_ path: UnixPath) -> Int32
  /// fchmod(2) of a socket that is not bound: the permissions of its file.
  func setPermissions(of number: Int32, to permissions: UInt16) -> Int32
  /// connect(2) of a new datagram socket to the file of a socket. `-ECONNREFUSED` if no program has the socket open, `-EPROTOTYPE` if it
  /// is a stream socket, 0 if it is a datagram socket, or another error of connect(2). Simulated faults do not affect it. Throws the
  /// error of socket(2).
  func probe(_ path: UnixPath) throws(SystemError) -> Int32
  func unlink(_ path: UnixPath) -> Int32
  /// From the root on: getcwd(3).
  func absolute(_ path: UnixPath) -> UnixPath

  // MARK: Names

  /// getaddrinfo(3) for stream sockets: each address once, with port 0, at least one.
  func addresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress]
  /// getifaddrs(3), in the order of the indexes.
  func interfaces() throws(SystemError) -> [NetworkInterface]
}

/// SCM_RIGHTS.
package struct ReceivedRights {
  /// The receiver has to close them.
  package var numbers: [Int32] = []
  /// Some were lost, because there was no room or no free number for them: MSG_CTRUNC.
  package var areTruncated = false

  package init() {}
}
