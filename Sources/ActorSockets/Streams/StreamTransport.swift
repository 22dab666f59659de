internal import EpollReactor
package import SocketSystem

/// The layer that moves a stream's bytes: a socket, the other end of an in-memory pair, or an encrypted layer.
///
/// All methods are synchronous and called on the reactor's thread. They never block: a transfer that cannot be done now returns
/// `.wouldBlock`, and the transport calls `StreamCore.transportIsReady()` when it is worth trying again.
package protocol StreamTransport: AnyObject {
  /// Whether bytes, the end or an error may wait. If not, there is no need to call `receive`.
  var isReadable: Bool { get }
  /// Makes the next transfer be tried although no event announced it, because the operation has no time to wait for an event.
  func forceAttempt()
  /// Moves received bytes into the buffer. `.bytes(0)` means the end of the stream. The first read still lacks `wanted` bytes; the
  /// transport may receive more, up to one receive buffer.
  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer
  /// Lends received bytes to `body` without copying them. `body` returns the number of bytes that it used; the others are moved into the
  /// buffer. At most one receive buffer is received, even if `limit` is higher.
  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer
  func send(_ bytes: Span<UInt8>) -> Transfer
  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer
  func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer
  /// Sends bytes, and passes a descriptor with the first byte.
  func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer
  /// The name that errors give the operation that brings the stream up.
  var openingOperation: String { get }
  func finishWriting() -> SystemError?
  /// The number of sent bytes that the peer's side has not acknowledged. An end of stream that was sent counts as one byte.
  var unacknowledgedBytes: Int { get }
  /// Whether nothing is left to receive except the end of the stream or an error.
  var isAtEnd: Bool { get }
  var tcpInfo: TCPInfo? { get }
  /// Releases everything after the sent bytes are safe. Returns whether that happened at once; otherwise `done` is called then.
  func close(_ done: @escaping @Sendable () -> Void) -> Bool
  /// The layer above has learned from received bytes that the peer sends no more.
  func expectNoMore()
  /// Releases everything now; the peer sees a reset.
  func abort()
  /// The stream has ended permanently. Drops received data that no call can take any more.
  func discard()
  /// The transport as one that encrypts; `nil` if it does not.
  var encryption: (any EncryptingTransport)? { get }
  /// The capture that records the stream; `nil` without one.
  var recording: (any StreamRecording)? { get }
}

/// What a transport also has if it encrypts the stream and sends the ciphertext through another stream, its carrier.
package protocol EncryptingTransport: AnyObject {
  /// The error of the last failed transfer, if an errno cannot express it.
  var failure: SocketError? { get }
  /// The number of bytes of ciphertext that the transport has produced and not sent. A write is done only when they are sent.
  var unsentCiphertext: Int { get }
  /// Whether bytes have arrived that no receive can return yet: a part of a record.
  var hasPartialInput: Bool { get }
  /// Whether the received bytes themselves said that no more follow. If so, a later reset does not fail reads.
  var hasFoundEnd: Bool { get }
  /// The user has aborted the stream. If the carrier is still closing, it must finish soon.
  func expireNow()
  /// An operation waits for the peer's end without reading. No event announces the end, so the transport looks for it.
  func readUntilEnd()
  /// Releases everything now, for a stream that was never open.
  func giveUp()
  /// Whether the carrier is still open after the transport was told to release everything at once. If so, the transport
  /// calls `StreamCore.transportIsGone()` when the carrier is closed.
  var isLettingGo: Bool { get }
}

/// Records what happens to a stream besides the transfers.
package protocol StreamRecording: AnyObject {
  /// The stream is up. Called once, before anything is moved.
  func streamIsUp()
  /// The stream carries a layer's bytes from now on.
  func beginCarrying()
  /// The connection broke. The error may come from an event, without any failed transfer.
  func streamBroke(_ error: SocketError)
}

extension StreamTransport {
  package var openingOperation: String { "connect" }
  package var tcpInfo: TCPInfo? { nil }
  package func expectNoMore() {}
  package var encryption: (any EncryptingTransport)? { nil }
  package var recording: (any StreamRecording)? { nil }

  /// Sent bytes are in the peer's buffer at once.
  package var unacknowledgedBytes: Int { 0 }

  /// Only sockets can pass descriptors.
  package func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer {
    .failed(SystemError(call: "sendmsg", errno: Errno.notSupported))
  }

  package func discard() {}

  /// The kernel has no socket to send the file to, so pieces are read. Bytes that were read and not taken are read again.
  package func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer {
    do throws(SystemError) {
      let bytes = try file.descriptor.read(from: offset, atMost: min(count, 65_536))
      return bytes.isEmpty ? .unreadable(nil) : .transfer(send(bytes.span))
    } catch {
      return .unreadable(error)
    }
  }
}
