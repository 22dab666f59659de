internal import SocketSystem

// The conversation that comes before a connection's own bytes, as a pure state machine: with a proxy that makes the connection, or with
// a load balancer that says whose connection it is.
//
// Invariants:
// - `next` is called with all bytes that have arrived and were not taken. After `.wait` it is called again when there are more, or when
//   the other side has ended. After `.send` it is called again once the bytes are sent, with what is left.
// - Bytes that it does not take belong to the stream. It takes them only when it is sure that they are its own.
// - It never needs to see more than `limit` bytes at a time. If it still waits then, the conversation has failed.

protocol Preamble {
  var limit: Int { get }
  /// For error messages: "the proxy's answer to the request".
  var awaited: String { get }
  /// If `isAtEnd`, no more bytes can arrive. Then `.wait` means that the conversation has failed.
  mutating func next(_ arrived: [UInt8], isAtEnd: Bool) throws(SocketError) -> PreambleStep
  func failure(_ reason: String) -> SocketError
}

extension Preamble {
  /// The error of a conversation with a proxy.
  func failure(_ reason: String) -> SocketError {
    SocketError(.proxyFailed, operation: "connect", detail: "waited for \(awaited): \(reason)")
  }
}

enum PreambleStep {
  case wait
  /// Take this number of bytes, send the others, and continue.
  case send([UInt8], taking: Int)
  /// Take this number of bytes. The stream begins.
  case done(taking: Int)
}

struct SendPreamble: Preamble {
  private let bytes: [UInt8]
  private var isSent = false

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  let limit = 0
  let awaited = "the sending of the PROXY header"

  mutating func next(_ arrived: [UInt8], isAtEnd: Bool) -> PreambleStep {
    if isSent { return .done(taking: 0) }
    isSent = true
    return .send(bytes, taking: 0)
  }

  func failure(_ reason: String) -> SocketError {
    SocketError(.connectionReset, operation: "connect", detail: "the PROXY header was not sent: \(reason)")
  }
}
