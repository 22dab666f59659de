internal import EpollReactor
package import SocketSystem

/// What moves a stream's bytes: a socket, the other end of an in-memory pair, later an encrypted layer.
///
/// Everything is synchronous and on the reactor's thread. Nothing blocks: what cannot be done now is `.wouldBlock`, and
/// the transport calls `StreamCore.transportIsReady()` when it is worth trying again.
package protocol StreamTransport: AnyObject {
  /// Whether bytes, the end or an error may wait: `receive` need not be tried otherwise.
  var isReadable: Bool { get }
  /// Says that the next transfer shall be tried although nothing announced it: there is no time to wait for an event.
  func tryAnyway()
  /// Moves bytes that arrived into the buffer; `.bytes(0)` is the end of the stream.
  ///
  /// - Parameters:
  ///   - buffer: Where they go.
  ///   - wanted: The bytes that the first read still lacks; receiving more, up to one receive buffer, is welcome.
  /// - Returns: How many bytes came, or why none did.
  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer
  /// Shows bytes that arrived without copying them; `body` says how many it used up, the rest goes to the buffer.
  ///
  /// - Parameters:
  ///   - limit: The most bytes to receive; no more than one receive buffer come in any case.
  ///   - buffer: Where the rest goes.
  ///   - body: Sees the bytes.
  /// - Returns: How many bytes came, or why none did.
  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer
  /// Sends bytes.
  func send(_ bytes: Span<UInt8>) -> Transfer
  /// Sends the pieces, the first from `offset` on.
  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer
  /// Sends at most `count` bytes of a file, from `offset` on.
  func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer
  /// Sends bytes, and a descriptor with the first of them.
  func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer
  /// What a transfer failed with, where an error number does not say it.
  var failure: SocketError? { get }
  /// The bytes that it took, in the form in which they are sent, and has not sent: a write is not done before they are.
  var heldBackBytes: Int { get }
  /// Tells the peer that no more bytes come.
  func finishWriting() -> SystemError?
  /// The bytes that were sent and that the peer's side has not acknowledged; an end that was sent counts as one.
  var unacknowledgedBytes: Int { get }
  /// Whether there are no bytes to receive but the end of the stream or an error.
  var isAtEnd: Bool { get }
  /// What TCP knows of the connection; `nil` if it is none of TCP.
  var tcpInfo: TCPInfo? { get }
  /// Lets go of everything once what was sent is safe.
  ///
  /// - Parameter done: Called when it is, unless that is at once.
  /// - Returns: Whether it was at once.
  func close(_ done: @escaping @Sendable () -> Void) -> Bool
  /// The peer has said, in the bytes that it sent, that no more come.
  func expectNoMore()
  /// Lets go of everything now; the peer sees a reset.
  func abort()
  /// Whether the peer has said, in the bytes that it sent, that no more come: a reset after that is no failure of reads.
  var hasFoundEnd: Bool { get }
  /// The user has aborted: if the transport still closes by itself, that is to be over soon.
  func hasten()
  /// Somebody waits for the peer's end without reading: where no event tells it, it is looked for.
  func findEnd()
  /// Lets go of everything now, of a stream that was not up yet.
  func giveUp()
  /// Whether the descriptor is still open after the transport was told to let go of it at once. The transport then calls
  /// `StreamCore.transportIsGone()` when the descriptor is closed.
  var isLettingGo: Bool { get }
  /// The stream has ended for good: what waits for nobody is dropped.
  func discard()
}

extension StreamTransport {
  package var tcpInfo: TCPInfo? { nil }
  package var failure: SocketError? { nil }
  package var heldBackBytes: Int { 0 }
  package var hasFoundEnd: Bool { false }
  package func hasten() {}
  package func findEnd() {}
  package func expectNoMore() {}
  package func giveUp() { abort() }
  package var isLettingGo: Bool { false }

  /// What was sent is in the peer's buffer at once.
  package var unacknowledgedBytes: Int { 0 }

  /// Descriptors go through sockets alone.
  package func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer {
    .failed(SystemError(call: "sendmsg", errno: Errno.notSupported))
  }

  package func discard() {}

  /// Where there is no socket that the kernel could send the file to, it is read in pieces. What was read and is not taken is
  /// read again.
  package func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer {
    do throws(SystemError) {
      let bytes = try file.descriptor.read(from: offset, atMost: min(count, 65_536))
      return bytes.isEmpty ? .unreadable(nil) : .transfer(send(bytes.span))
    } catch {
      return .unreadable(error)
    }
  }
}
