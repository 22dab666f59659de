internal import EpollReactor
public import SocketSystem

// Passing descriptors through unix sockets.
//
// A descriptor that is sent is part of a write: it goes with the write's first byte, and is closed when the kernel has taken
// it, or when the write fails or is taken back. One that arrives waits in the transport's inbox, which a connection has
// only if it was told to; other connections receive without asking for descriptors, and the kernel closes what comes.

/// A descriptor on its way into a socket; it is closed with the last reference.
package final class PassedDescriptor: Sendable {
  let descriptor: OwnedDescriptor
  init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }
}

extension TCPConnection {
  /// Writes bytes, and passes a descriptor to the peer along with the first of them: sendmsg(2) with SCM_RIGHTS, unix(7).
  ///
  /// The connection must be one of a unix socket. The descriptor is closed in any case: here when the kernel has taken it,
  /// for the peer's process then has one of its own, and otherwise when the write fails or is taken back.
  ///
  /// *Cancellation*, timeouts and *ordering* are those of ``ByteStream/write(_:)-([UInt8])``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes, at least one.
  ///   - descriptor: What to pass.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``: `.invalidArgument` if there are no bytes or the socket is no unix socket, `.limitExceeded` if
  ///   too many descriptors are under way in the whole system already; and `CancellationError` when the task is cancelled.
  public func write(
    _ bytes: [UInt8], passing descriptor: consuming OwnedDescriptor, timeout: Timeout? = nil
  ) async throws {
    let passed = PassedDescriptor(descriptor)
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try core.checkWritable()
    if bytes.isEmpty { throw SocketError.invalid("write", "a descriptor goes with a byte, and there is none") }
    try await finish(core.begin(.passing(bytes, passed), timeout, nil, place))
  }

  /// Takes the first descriptor that came with the bytes received so far.
  ///
  /// A connection receives descriptors if ``Configuration/pendingDescriptorLimit`` says so. They wait in the order in which
  /// they came. One that came with the first byte of a message is here as soon as a read has brought that byte; it may be here
  /// before, with bytes that were received and not read yet. All that wait are closed with the connection.
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Returns: The descriptor, which is yours; `nil` if none waits.
  public func takeDescriptor() -> OwnedDescriptor? {
    _ = claimPlaceNow()
    return takeFromInbox()
  }
}

extension StreamCore {
  /// Sends the first bytes of a write and a descriptor with them; false when nothing can be sent now.
  func pass(_ passed: PassedDescriptor, with bytes: [UInt8]) -> Bool {
    let result = transport.send(bytes.span, passing: passed)
    switch result {
    case .bytes:
      writes.queue.passed()
    case .failed(let error) where Self.concernsDescriptor(error.errno):
      // Nothing was sent, and the connection is as it was.
      guard let first = writes.queue.first, let (write, _) = writes.queue.remove(first.id) else { break }
      let failure =
        error.errno == Errno.notSupported
        ? SocketError.invalid("write", "only a unix socket passes descriptors") : SocketError(error, operation: "write")
      finish(write, .failure(failure))
      return true
    default:
      break
    }
    return note(sent: result)
  }

  private static func concernsDescriptor(_ errno: Int32) -> Bool {
    [Errno.notSupported, Errno.tooManyReferences, Errno.noMemory, Errno.noBuffers, Errno.badDescriptor].contains(errno)
  }
}
