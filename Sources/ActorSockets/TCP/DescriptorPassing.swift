internal import EpollReactor
public import SocketSystem

// Passing descriptors through unix sockets.
//
// A descriptor to be sent is part of a write and goes with the write's first byte. It is closed when the kernel has taken it,
// or when the write fails or is cancelled. A descriptor that arrives waits in the transport's inbox. A connection has an inbox
// only if its configuration asks for one; other connections receive without asking for descriptors, and the kernel closes those
// that arrive.

extension TCPConnection {
  /// Writes bytes, and passes a descriptor to the peer with the first byte: sendmsg(2) with SCM_RIGHTS, unix(7).
  ///
  /// The connection must be over a unix socket. The descriptor is always closed in this process: after the kernel has taken it,
  /// because the peer then has its own, or when the write fails or is cancelled.
  ///
  /// *Cancellation*, timeouts and *ordering* are those of ``ByteStream/write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes, at least one.
  ///   - descriptor: The descriptor to pass.
  ///   - timeout: How long the write may take; `nil` for no limit.
  /// - Throws: ``SocketError``: `.invalidArgument` if there are no bytes or the socket is not a unix socket, `.limitExceeded`
  ///   if the process's user has more descriptors in flight than RLIMIT_NOFILE allows; `CancellationError` when the task is
  ///   cancelled.
  public func write(
    _ bytes: [UInt8], passing descriptor: consuming OwnedDescriptor, timeout: Timeout? = nil
  ) async throws {
    let passed = PassedDescriptor(descriptor)
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try core.checkWritable()
    if bytes.isEmpty { throw SocketError.invalid("write", "descriptors need at least one byte to travel with") }
    try await finish(core.begin(.passing(bytes, passed), timeout, nil, place))
  }

  /// Takes the first waiting descriptor that the peer passed.
  ///
  /// A connection receives descriptors only if ``Configuration/pendingDescriptorLimit`` is more than 0. They wait in the order
  /// in which they arrived. A descriptor that came with the first byte of a message is available once a read has returned that
  /// byte. It may be available earlier, with bytes that were received but not read yet. Closing the connection closes all
  /// descriptors that wait.
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Returns: The descriptor, which the caller then owns; `nil` if no descriptor waits.
  public func takeDescriptor() -> OwnedDescriptor? {
    _ = claimPlaceNow()
    return takeFromInbox()
  }
}

extension StreamCore {
  /// Returns `false` if nothing can be sent now.
  func pass(_ passed: PassedDescriptor, with bytes: [UInt8]) -> Bool {
    let result = transport.send(bytes.span, passing: passed)
    switch result {
    case .bytes:
      writes.queue.passed()
    case .failed(let error) where Self.concernsDescriptor(error.errno):
      // Nothing was sent, and the connection is still usable.
      guard let first = writes.queue.first, let (write, _) = writes.queue.remove(first.id) else { break }
      let failure =
        switch error.errno {
        case Errno.notSupported: SocketError.invalid("write", "only a unix socket passes descriptors")
        case Errno.notImplemented: SocketError.passesOnlySimulated("write")
        default: SocketError(error, operation: "write")
        }
      finish(write, .failure(failure))
      return true
    default:
      break
    }
    return note(sent: result)
  }

  private static func concernsDescriptor(_ errno: Int32) -> Bool {
    [
      Errno.notSupported, Errno.notImplemented, Errno.tooManyReferences, Errno.noMemory, Errno.noBuffers,
      Errno.badDescriptor,
    ].contains(errno)
  }
}
