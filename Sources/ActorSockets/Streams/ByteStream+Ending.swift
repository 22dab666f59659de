internal import EpollReactor

extension ByteStream {
  /// Waits until the peer has finished writing, whether or not everything has been read. Writing to the peer may continue.
  ///
  /// Over TLS, the stream has to decrypt the bytes before the end to find it. It does so while at most 64 KiB wait to be read. So if
  /// the peer has sent more, read the stream meanwhile.
  ///
  /// *Ordering*: the call has no place among the operations. It returns when the condition holds.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`. If the peer has already finished, the call returns even in
  /// a cancelled task.
  ///
  /// - Throws: ``SocketError``: `.closed` or why the connection broke, if that comes first; `CancellationError` if the task is
  ///   cancelled.
  public func peerFinishedWriting() async throws {
    let place = claimPlaceNow()
    if core.lifecycle.peerHasFinished { return }
    if core.lifecycle.report != nil { throw core.endError.during("peerFinishedWriting").thrown }
    let waiter = try waiter(in: \.peerFinished, place)
    core.transport.encryption?.readUntilEnd()
    try await wait(for: waiter, in: \.peerFinished)
  }

  /// Call it after a read that has returned `nil`, if that is to mean that the peer has sent all: throws if a drain has ended the idle
  /// reads instead.
  func checkEndIsOfPeer(_ operation: String, after count: Int = 0) throws {
    _ = claimPlaceNow()
    if case .drained? = core.reads.queue.ending { throw SocketError.drained(operation, bytesTransferred: count) }
  }

  /// Closes the stream: waiting reads fail with `.closed`, waiting writes are sent, then the descriptor is closed.
  ///
  /// It returns when the descriptor is closed. Closing destroys nothing that was sent: over TCP, the stream discards input until
  /// the peer finishes, for 2 seconds at most. On a unix socket it does not wait: the bytes that were sent are already in the
  /// peer's buffer, and the bytes that the peer had sent are discarded at once. A peer that still writes there gets EPIPE from then
  /// on.
  ///
  /// *Ordering*: operations that are called earlier are accepted, operations that are called later throw `.closed`.
  ///
  /// *Cancellation*, also before the call, only ends the wait; closing continues.
  public func close() async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    core.userCloses()
    core.beginClose()
    await waitUntilReleased(place)
  }

  /// Closes the stream when the waiting operations are finished. New operations throw `.closed` at once.
  ///
  /// *Ordering* is that of ``close()``.
  ///
  /// *Cancellation*, also before the call, only ends the wait; closing continues.
  ///
  /// - Parameter condition: The operations to finish first.
  public func close(after condition: CloseCondition) async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    core.userCloses()
    core.beginClose(after: condition)
    await waitUntilReleased(place)
  }

  /// Ends the stream now: waiting operations fail with `.closed`, and bytes that were not sent are dropped.
  ///
  /// Over TCP the peer sees a reset (RST), which may destroy bytes that the peer has received but not read. In memory the peer
  /// reads the bytes that arrived, and then the reset. Linux has no reset for unix sockets, unix(7): the peer reads everything that
  /// was sent, and then a clean end of the stream. It gets ECONNRESET instead of the end only if it had sent bytes that this side
  /// has not received. So a protocol over unix sockets must not treat the end of the stream as the end of a message.
  ///
  /// *Ordering*: in the stream's isolation it takes effect at once, ahead of calls that wait in the queue; those throw `.closed`.
  public func abort() {
    _ = claimPlaceNow()
    core.userCloses()
    core.abortOnRequest()
  }

  /// Waits until the stream has ended, and returns how it ended.
  ///
  /// *Ordering*: the call has no place among the operations. It returns when the stream has ended.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`. If the stream has already ended, the call returns the
  /// report even in a cancelled task.
  public var closed: CloseReport {
    get async throws {
      let place = claimPlaceNow()
      if let report = core.lifecycle.report { return report }
      return try await wait(for: waiter(in: \.closed, place), in: \.closed)
    }
  }
}

/// The operations that a stream finishes before it closes, with ``ByteStream/close(after:)``.
public enum CloseCondition: Hashable, Sendable {
  /// The waiting reads.
  case pendingReads
  /// The waiting writes. Reads continue until the writes are finished.
  case pendingWrites
  /// The waiting reads and writes.
  case pendingReadsAndWrites
}
