import Foundation
import Synchronization
import TestSupport
import Testing

@testable import SocketSystem

/// How often the handler of SIGUSR2 ran.
private let interruptions = Atomic<Int>(0)

/// Signals interrupt calls that wait in the kernel. The descriptors are blocking, because a call on a nonblocking one returns before a
/// signal can interrupt it.
@Suite(.serialized) struct InterruptedCallTests {
  /// Makes a call that waits on a thread of its own, interrupts it, and lets it finish. If `isRepeated`, the call must still wait after
  /// it was interrupted, three times.
  private func interrupt<Value: Sendable>(
    _ call: KernelThread.SystemCall, isRepeated: Bool = true, _ body: @escaping @Sendable () throws -> Value,
    then finish: @Sendable () throws -> Void = {}
  ) async throws -> Value {
    // SAFETY: the structure is valid for the call. The handler only counts. Without SA_RESTART, the kernel does not repeat a call.
    var action = sigaction()
    unsafe action.__sigaction_handler.sa_handler = { _ in interruptions.add(1, ordering: .relaxed) }
    unsafe sigaction(SIGUSR2, &action, nil)
    let caller = Locked<(KernelThread, pthread_t)?>(nil)
    let isDone = Locked(false)
    async let outcome = onThread {
      var signals = sigset_t()
      // SAFETY: the set is valid for the calls.
      unsafe sigemptyset(&signals)
      unsafe sigaddset(&signals, SIGUSR2)
      unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
      caller.withLock { $0 = (.current, pthread_self()) }
      defer { isDone.withLock { $0 = true } }
      return try body()
    }
    for _ in 0..<(isRepeated ? 3 : 1) {
      try await eventually("the call waits") {
        if isDone.withLock({ $0 }) { return true }
        return try caller.withLock { $0 }?.0.waits(in: call) == true
      }
      // Under the lock, so that the thread cannot end before the signal is sent.
      let before = interruptions.load(ordering: .relaxed)
      let isSent = isDone.withLock { isDone in
        if !isDone, let thread = caller.withLock({ $0?.1 }) { pthread_kill(thread, SIGUSR2) }
        return !isDone
      }
      if !isSent { break }
      try await eventually("the signal is handled") { interruptions.load(ordering: .relaxed) > before }
    }
    #expect(!isRepeated || !isDone.withLock { $0 }, "the call returned when it was interrupted")
    try finish()
    return try await outcome
  }

  private func fullPair() throws -> (RawSocket, RawSocket) {
    let (full, peer) = try RawSocket.unixPair()
    let flags = fcntl(full.number, F_GETFL)
    #expect(fcntl(full.number, F_SETFL, flags | O_NONBLOCK) == 0)
    let block = [UInt8](repeating: 1, count: 4096)
    while case .bytes = BorrowedDescriptor(full.number).send(block.span) {}
    #expect(fcntl(full.number, F_SETFL, flags) == 0)
    return (full, peer)
  }

  /// Receives everything that waits, so that there is room.
  private func drain(_ peer: RawSocket) throws {
    while recv(peer.number, nil, 0, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0 {
      if try peer.receiveNow(atMost: 65_536).count < 65_536 { break }
    }
  }

  private func count(_ transfer: Transfer) throws -> Int {
    switch transfer {
    case .bytes(let count): count
    case .wouldBlock: throw SystemError(call: "transfer", errno: EAGAIN)
    case .failed(let error): throw error
    }
  }

  /// A call that sends, and how many bytes it sends when there is room.
  private static let sends: [(call: KernelThread.SystemCall, count: Int)] = [
    (.sendto, 2), (.sendmsg, 3), (.sendfile, 5),
  ]

  @Test(arguments: sends)
  func `A send that is interrupted is repeated`(call: KernelThread.SystemCall, count: Int) async throws {
    let (full, peer) = try fullPair()
    let folder = try Folder()
    let path = folder.file("file").path
    try "hello".write(toFile: path, atomically: true, encoding: .utf8)
    let file = try OwnedDescriptor.openForReading(path)
    let sent = try await interrupt(call) {
      let socket = BorrowedDescriptor(full.number)
      switch call {
      case .sendto: return try self.count(socket.send([1, 2].span))
      case .sendmsg: return try self.count(socket.send(gathering: [[1, 2], [3, 4]], skipping: 1))
      default:
        guard case .transfer(let transfer) = socket.send(file: file, from: 0, count: 5) else { return -1 }
        return try self.count(transfer)
      }
    } then: {
      try drain(peer)
    }
    #expect(sent == count)
  }

  @Test func `A receive that is interrupted is repeated`() async throws {
    let (socket, peer) = try RawSocket.unixPair()
    let received = try await interrupt(.recvfrom) {
      var bytes: [UInt8] = []
      _ = try self.count(BorrowedDescriptor(socket.number).receive(appendingTo: &bytes, atMost: 10))
      return bytes
    } then: {
      try peer.send([7, 8])
    }
    #expect(received == [7, 8])
  }

  @Test func `A receive of descriptors that is interrupted is repeated`() async throws {
    let (socket, peer) = try RawSocket.unixPair()
    let received = try await interrupt(.recvmsg) {
      let inbox = DescriptorInbox(maximum: 1)
      // SAFETY: the memory is valid until the closure returns.
      return try unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { memory in
        try self.count(unsafe inbox.receive(from: BorrowedDescriptor(socket.number), into: memory))
      }
    } then: {
      try peer.send([7, 8])
    }
    #expect(received == 2)
  }

  @Test func `An accept that is interrupted is repeated`() async throws {
    let listener = try RawSocket.listening()
    let address = try listener.address
    let client = Locked<RawSocket?>(nil)
    let isAccepted = try await interrupt(.accept4) {
      try BorrowedDescriptor(listener.number).accept() != nil
    } then: {
      let connected = try RawSocket.connected(to: address)
      client.withLock { $0 = connected }
    }
    #expect(isAccepted)
  }

  /// Those of files wait for a disk only, so a test cannot interrupt them.
  @Test func `A call of a file that is interrupted is repeated`() {
    var results = [-EINTR, -EINTR, 7]
    func call() -> Int32 {
      let result = results.removeFirst()
      if result < 0 { errno = -result }
      return max(-1, result)
    }
    #expect(Linux.retried(call) == 7 && results.isEmpty)
    results = [-EIO, 7]
    #expect(Linux.retried(call) == -EIO)
  }

  /// An interrupted connect continues in the background, as a nonblocking one does. So both return `false`.
  @Test func `A connect that is interrupted goes on in the background`() async throws {
    let folder = try Folder()
    let address = SocketAddress.unix(try UnixPath(parsing: folder.file("socket").path))
    let listener = try RawSocket.listening(backlog: 0, on: address)
    let first = try RawSocket.connected(to: address)
    // The backlog is full, so this one waits.
    let second = RawSocket(owning: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
    let isConnected = try await interrupt(.connect, isRepeated: false) {
      try BorrowedDescriptor(second.number).connect(to: address)
    }
    #expect(!isConnected)
    for socket in [listener, first, second] { socket.close() }
  }
}
