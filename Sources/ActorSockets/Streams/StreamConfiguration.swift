/// The settings that every stream has, whatever carries it. They have the same names in all configurations.
package protocol StreamConfiguration: Sendable {
  var writeBudget: Int { get set }
  var onWriteOverflow: WriteOverflowAction { get set }
  var closeTimeout: Duration { get set }
  var closesOnEndOfStream: Bool { get set }
  var onTimeout: TimeoutAction { get set }
  var writeCompletion: WriteCompletion { get set }
}

extension StreamConfiguration {
  package var options: StreamCore.Options {
    var options = StreamCore.Options()
    options.writeBudget = writeBudget
    options.abortsSlowPeer = onWriteOverflow == .abort
    options.closeTimeout = closeTimeout
    options.closesOnEndOfStream = closesOnEndOfStream
    options.closesOnTimeout = onTimeout == .close
    options.buffersWrites = writeCompletion == .buffered
    return options
  }
}

/// The effect of an operation's timeout on its stream.
public enum TimeoutAction: Hashable, Sendable {
  /// The operation fails. The stream stays usable, and no byte is lost.
  case keepOpen
  /// The operation fails, and the stream closes as by ``ByteStream/close()``. Its report says
  /// ``CloseReport/Reason-swift.enum/timedOut``.
  case close
}

/// The effect of an enqueued write that would exceed the write budget.
public enum WriteOverflowAction: Hashable, Sendable {
  /// The write fails with `.limitExceeded`, and the stream stays usable. The program must check the handle, because the message was not
  /// queued.
  case fail
  /// The stream is aborted. Its operations throw `.peerTooSlow`, and its report says ``CloseReport/Reason-swift.enum/peerTooSlow``.
  /// A stream that is not up yet is aborted, too. So the peer never receives later messages after one was dropped.
  case abort
}

/// When a write returns.
public enum WriteCompletion: Hashable, Sendable {
  /// When the kernel has taken the last byte; over TLS, the last byte of the ciphertext.
  case sent
  /// When the stream has taken the bytes. The reactor sends them together with those of its other connections, and small writes of a
  /// connection as one, before it waits for events: usually within a millisecond. This makes many small writes cheaper.
  ///
  /// A write waits as with ``sent`` while earlier bytes wait for the peer. So at most 16 KiB are buffered, and larger writes are sent at
  /// once. When the stream has taken the bytes, cancellation and the timeout have no effect on them, and no progress is reported. If the
  /// connection breaks before they are sent, later writes throw the error, and ``CloseReport/bytesUnsent`` counts the bytes. Whatever
  /// comes after the write sends them first: also a close, an abort, or the upgrade to TLS. To learn that they are sent, call
  /// ``ByteStream/flush(until:timeout:)``.
  case buffered
}
