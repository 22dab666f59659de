internal import EpollReactor

// The operations that wait in a stream's queues, to show what a connection is waiting for. The only extra state is the time of
// the loop iteration in which an operation began to wait. An operation that is done at once does not record it.

/// A read or a write that waits.
public struct PendingOperation: Hashable, Sendable, CustomStringConvertible {
  /// The kinds of operations.
  @nonexhaustive
  public enum Kind: Hashable, Sendable {
    /// Reading the bytes that are available.
    case readAny
    /// Copying the bytes that are available without consuming them.
    case peek
    /// Borrowing the bytes that are available.
    case withBytes
    /// Reading a number of bytes.
    case readExactly
    /// Reading through a delimiter.
    case readUntil
    /// Reading a line.
    case readLine
    /// Reading a message with a length prefix.
    case readMessage
    /// Reading until the peer finishes.
    case readToEnd
    /// Writing.
    case write
    /// The half-close.
    case finishWriting
    /// Waiting for the peer's acknowledgement.
    case flush
  }

  /// The kind of the operation.
  public let kind: Kind
  /// A description of the operation, for example `read exactly 10 bytes`.
  public let summary: String
  /// The time since the call; `nil` for a write that was abandoned and whose remaining bytes are still being sent.
  public let age: Duration?
  /// The time that is left until the operation times out; `nil` without a timeout, and before its time has started.
  public let timeLeft: Duration?
  /// The number of bytes done. For a read, this includes bytes that have arrived and that it has not taken yet.
  public let bytesDone: Int
  /// The number of bytes of the whole operation, if it is known.
  public let bytesTotal: Int?

  /// A description in one line, for logs.
  public var description: String {
    let bytes = "\(bytesDone)" + (bytesTotal.map { " of \($0)" } ?? "") + " bytes done"
    return "\(summary): \(bytes), "
      + (age.map { "for \($0)" } ?? "timed out or cancelled; its last bytes are still being sent")
  }
}

extension StreamCore {
  var pendingOperations: [PendingOperation] { pendingOperations(atMost: .max) }

  /// Returns the first operations of each queue.
  func pendingOperations(atMost limit: Int) -> [PendingOperation] {
    let now = registration.reactor.now
    var hasArrived = reads.queue.buffer.count
    let waitingReads = reads.queue.first(limit) { !$0.tag.isUpgrade }.map { entry in
      let (kind, summary, total) = entry.kind.told
      // The bytes that have arrived are only for the first read.
      let done = min(hasArrived, total ?? .max)
      hasArrived = 0
      return PendingOperation(
        kind: kind, summary: summary, age: age(of: entry.tag, now), timeLeft: entry.tag.timeLeft(at: now),
        bytesDone: done, bytesTotal: total)
    }
    // Everything before these is sent, so they come first.
    let flushes = (acknowledgementWait?.queue.first(limit) ?? []).map { flush in
      PendingOperation(
        kind: .flush, summary: Self.flushSummary, age: age(of: flush, now), timeLeft: flush.timeLeft(at: now),
        bytesDone: 0, bytesTotal: nil)
    }
    let waitingWrites = writes.queue.first(limit) { $0.tag?.isUpgrade != true }.map { entry in
      let (kind, summary) = entry.told
      return PendingOperation(
        kind: kind, summary: summary, age: entry.tag.map { age(of: $0, now) },
        timeLeft: entry.tag?.timeLeft(at: now), bytesDone: entry.sent, bytesTotal: entry.total)
    }
    return waitingReads + flushes + waitingWrites
  }

  private func age(of operation: Operation, _ now: Int64) -> Duration { .nanoseconds(max(0, now - operation.called)) }
}

extension StreamCore {
  fileprivate static let flushSummary = "wait for the peer's acknowledgement"
}

extension WriteQueue.Entry {
  fileprivate var told: (kind: PendingOperation.Kind, summary: String) {
    if isFinish { return (.finishWriting, "finish writing") }
    if isFlush { return (.flush, StreamCore.flushSummary) }
    return (.write, "write \(total) bytes")
  }
}

extension ReadKind {
  fileprivate var told: (kind: PendingOperation.Kind, summary: String, total: Int?) {
    switch self {
    case .any(let limit): (.readAny, "read up to \(limit) bytes", nil)
    case .peek(let limit): (.peek, "peek at up to \(limit) bytes", nil)
    case .exactly(let count, _): (.readExactly, "read exactly \(count) bytes", count)
    case .until(_, let maximum, _): (.readUntil, "read through a delimiter, at most \(maximum) bytes", nil)
    case .line(_, let maximum): (.readLine, "read a line of at most \(maximum) bytes", nil)
    case .message(_, let maximum): (.readMessage, "read a message of at most \(maximum) bytes", nil)
    case .toEnd(let maximum): (.readToEnd, "read to the end, at most \(maximum) bytes", nil)
    case .parse(let parser): (.readMessage, "parse a message of at most \(parser.maximumLength) bytes", nil)
    case .batch(let kind): (kind.told.kind, "read a batch, in which each would be: \(kind.told.summary)", nil)
    case .borrow(let seen): (.withBytes, seen == 0 ? "look at bytes" : "look at more than \(seen) bytes", nil)
    }
  }
}
