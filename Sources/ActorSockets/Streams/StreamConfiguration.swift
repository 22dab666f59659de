/// The settings that every stream has, whatever carries it. They have the same names in all configurations.
package protocol StreamConfiguration: Sendable {
  var writeBudget: Int { get set }
  var onWriteOverflow: WriteOverflowAction { get set }
  var closeTimeout: Duration { get set }
  var closesOnEndOfStream: Bool { get set }
  var onTimeout: TimeoutAction { get set }
}

extension StreamConfiguration {
  package var options: StreamCore.Options {
    var options = StreamCore.Options()
    options.writeBudget = writeBudget
    options.abortsSlowPeer = onWriteOverflow == .abort
    options.closeTimeout = closeTimeout
    options.closesOnEndOfStream = closesOnEndOfStream
    options.closesOnTimeout = onTimeout == .close
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
