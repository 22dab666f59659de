internal import EpollReactor
internal import SocketSystem

/// Carries out preambles on a socket, one after the other.
///
/// It looks at the bytes that have arrived and leaves them in the kernel; only those that a preamble takes are received. So whatever
/// follows a preamble is in the socket when the stream begins, as if it had just arrived. This costs one more system call for each
/// message of a preamble.
struct Negotiation {
  private(set) var preambles: [any Preamble]
  private var index = 0
  /// What remains to be sent of the last step.
  private var unsent: ArraySlice<UInt8> = []
  /// The peer sends no more than what has arrived.
  private var peerHasEnded = false

  init(_ preambles: [any Preamble]) { self.preambles = preambles }

  /// What is being waited for, for error messages.
  var awaited: String { preambles.indices.contains(index) ? preambles[index].awaited : "" }

  /// Continues as far as possible now. Call it at the beginning, and for each event.
  ///
  /// - Parameters:
  ///   - socket: The socket, which is connected.
  ///   - readiness: The event.
  ///   - reactor: The reactor that the socket belongs to.
  /// - Returns: Whether all preambles are done. If not, wait for the next event.
  /// - Throws: Why a preamble failed.
  mutating func proceed(
    on socket: BorrowedDescriptor, after readiness: Readiness, _ reactor: Reactor
  ) throws(SocketError) -> Bool {
    if readiness.contains(.ended.union(.error)) { peerHasEnded = true }
    while index < preambles.count {
      if try !sendRest(on: socket) { return false }
      let arrived = try peek(at: socket)
      switch try preambles[index].next(arrived) {
      case .send(let bytes, let count):
        try take(count, from: socket, reactor)
        unsent = bytes[...]
      case .done(let count):
        try take(count, from: socket, reactor)
        index += 1
      case .wait:
        let limit = preambles[index].limit
        if arrived.count >= limit { throw preambles[index].failure("it sent more than \(limit) bytes") }
        if peerHasEnded { throw preambles[index].failure("it ended the connection") }
        return false
      }
    }
    return true
  }

  private mutating func sendRest(on socket: BorrowedDescriptor) throws(SocketError) -> Bool {
    while !unsent.isEmpty {
      switch socket.send(unsent.span) {
      case .bytes(let count): unsent = unsent.dropFirst(count)
      case .wouldBlock: return false
      case .failed(let error): throw failure(error)
      }
    }
    return true
  }

  private mutating func peek(at socket: BorrowedDescriptor) throws(SocketError) -> [UInt8] {
    let limit = preambles[index].limit
    if limit == 0 { return [] }
    var arrived: [UInt8] = []
    switch socket.peek(into: &arrived, atMost: limit) {
    case .bytes(0): peerHasEnded = true
    case .bytes, .wouldBlock: break
    case .failed(let error): throw failure(error)
    }
    return arrived
  }

  private func take(_ count: Int, from socket: BorrowedDescriptor, _ reactor: Reactor) throws(SocketError) {
    var rest = count
    while rest > 0 {
      switch reactor.receiveIntoScratch(from: socket, atMost: rest) {
      case .bytes(let count) where count > 0: rest -= count
      case .failed(let error): throw failure(error)
      // The bytes were there a moment ago.
      case .bytes, .wouldBlock: throw preambles[index].failure("its bytes were received elsewhere")
      }
    }
  }

  private func failure(_ error: SystemError) -> SocketError {
    var failure = preambles[index].failure("the connection broke")
    failure.errno = error.errno
    return failure
  }
}
