internal import EpollReactor
internal import SocketSystem

/// Carries out preambles on a socket.
///
/// It looks at the bytes that have arrived and leaves them in the kernel; only those that a preamble takes are received. So the bytes after
/// a preamble are still in the socket when the stream begins. This costs one more system call for each message of a preamble.
struct Negotiation {
  private var unsent: ArraySlice<UInt8> = []
  private var isAtEnd = false

  /// Continues as far as possible without waiting. Pass the same preamble until it is done. Returns whether it is done; if not, call again
  /// at the next event.
  mutating func proceed(
    _ preamble: inout some Preamble, on socket: BorrowedDescriptor, after readiness: Readiness, _ reactor: Reactor
  ) throws(SocketError) -> Bool {
    if readiness.contains(.ended.union(.error)) { isAtEnd = true }
    while true {
      if try !sendRest(of: preamble, on: socket) { return false }
      let arrived = try peek(for: preamble, at: socket)
      switch try preamble.next(arrived, isAtEnd: isAtEnd) {
      case .send(let bytes, let count):
        try take(count, for: preamble, from: socket, reactor)
        unsent = bytes[...]
      case .done(let count):
        try take(count, for: preamble, from: socket, reactor)
        return true
      case .wait:
        if arrived.count >= preamble.limit { throw preamble.failure("it sent more than \(preamble.limit) bytes") }
        if isAtEnd { throw preamble.failure("it ended the connection") }
        return false
      }
    }
  }

  private mutating func sendRest(of preamble: some Preamble, on socket: BorrowedDescriptor) throws(SocketError) -> Bool
  {
    while !unsent.isEmpty {
      switch socket.send(unsent.span) {
      case .bytes(let count): unsent = unsent.dropFirst(count)
      case .wouldBlock: return false
      case .failed(let error): throw preamble.failure(error)
      }
    }
    return true
  }

  private mutating func peek(for preamble: some Preamble, at socket: BorrowedDescriptor) throws(SocketError) -> [UInt8]
  {
    var arrived: [UInt8] = []
    if preamble.limit == 0 { return arrived }
    switch socket.peek(into: &arrived, atMost: preamble.limit) {
    case .bytes(0): isAtEnd = true
    case .bytes, .wouldBlock: break
    case .failed(let error): throw preamble.failure(error)
    }
    return arrived
  }

  private func take(
    _ count: Int, for preamble: some Preamble, from socket: BorrowedDescriptor, _ reactor: Reactor
  ) throws(SocketError) {
    var rest = count
    while rest > 0 {
      switch reactor.receiveIntoScratch(from: socket, atMost: rest) {
      case .bytes(let count) where count > 0: rest -= count
      case .failed(let error): throw preamble.failure(error)
      // They were there a moment ago.
      case .bytes, .wouldBlock: throw preamble.failure("its bytes were received elsewhere")
      }
    }
  }
}

extension Preamble {
  fileprivate func failure(_ error: SystemError) -> SocketError {
    var failure = failure("the connection broke")
    failure.errno = error.errno
    return failure
  }
}
