internal import EpollReactor

// What waits in a stream's queues, for people who want to know what a connection hangs on. Nothing is kept for it but the time
// of the loop's turn in which an operation had to wait; one that is done at once never gets that far.

/// A read or a write that waits.
public struct PendingOperation: Hashable, Sendable, CustomStringConvertible {
  /// What is to be done.
  public enum Kind: Hashable, Sendable {
    /// Reading what there is.
    case readAny
    /// Looking at what there is, as an array.
    case peek
    /// Looking at what there is, in place.
    case withBytes
    /// Reading so many bytes.
    case readExactly
    /// Reading through a delimiter.
    case readUntil
    /// Reading a line.
    case readLine
    /// Reading a message with its length in front.
    case readMessage
    /// Writing.
    case write
    /// The half-close.
    case finishWriting
    /// Waiting for the peer's acknowledgement.
    case flush
  }

  /// What is to be done.
  public let kind: Kind
  /// What is to be done, in words: for example `read exactly 10 bytes`.
  public let summary: String
  /// How long ago it was called; `nil` for a write that was given up and whose rest is still being sent.
  public let age: Duration?
  /// The bytes that are done; those that arrived and that a read has not taken yet count.
  public let bytesDone: Int
  /// The bytes that there will be, if that is known.
  public let bytesTotal: Int?

  /// One line for logs.
  public var description: String {
    let bytes = "\(bytesDone)" + (bytesTotal.map { " of \($0)" } ?? "") + " bytes done"
    return "\(summary): \(bytes), " + (age.map { "for \($0)" } ?? "given up, its rest is being sent")
  }
}

extension StreamCore {
  /// What waits, the reads first.
  var pendingOperations: [PendingOperation] {
    let now = registration.reactor.now
    var hasArrived = reads.queue.buffer.count
    let waitingReads = reads.queue.all.map { entry in
      let (kind, summary, total) = entry.kind.told
      // What has arrived is there for the first one alone.
      let done = min(hasArrived, total ?? .max)
      hasArrived = 0
      return PendingOperation(
        kind: kind, summary: summary, age: age(of: entry.tag, now), bytesDone: done, bytesTotal: total)
    }
    // All before these is sent, so they are the first.
    let flushes = (acknowledgementWait?.queue.all ?? []).map { flush in
      PendingOperation(
        kind: .flush, summary: Self.flushSummary, age: age(of: flush, now), bytesDone: 0, bytesTotal: nil)
    }
    let waitingWrites = writes.queue.all.map { entry in
      let (kind, summary) = entry.told
      return PendingOperation(
        kind: kind, summary: summary, age: entry.tag.map { age(of: $0, now) }, bytesDone: entry.sent,
        bytesTotal: entry.total)
    }
    return waitingReads + flushes + waitingWrites
  }

  private func age(of operation: Operation, _ now: Int64) -> Duration { .nanoseconds(max(0, now - operation.called)) }
}

extension StreamCore {
  fileprivate static let flushSummary = "wait for the peer's acknowledgement"
}

extension WriteQueue.Entry {
  /// What it is, for people.
  fileprivate var told: (kind: PendingOperation.Kind, summary: String) {
    if isFinish { return (.finishWriting, "finish writing") }
    if isFlush { return (.flush, StreamCore.flushSummary) }
    return (.write, "write \(total) bytes")
  }
}

extension ReadKind {
  /// What it is, for people.
  fileprivate var told: (kind: PendingOperation.Kind, summary: String, total: Int?) {
    switch self {
    case .any(let limit): (.readAny, "read up to \(limit) bytes", nil)
    case .peek(let limit): (.peek, "peek at up to \(limit) bytes", nil)
    case .exactly(let count, _): (.readExactly, "read exactly \(count) bytes", count)
    case .until(_, let maximum, _): (.readUntil, "read through a delimiter, at most \(maximum) bytes", nil)
    case .line(_, let maximum): (.readLine, "read a line of at most \(maximum) bytes", nil)
    case .message(_, let maximum): (.readMessage, "read a message of at most \(maximum) bytes", nil)
    case .batch(let kind): (kind.told.kind, "read a batch, in which each would be: \(kind.told.summary)", nil)
    case .borrow(let seen): (.withBytes, seen == 0 ? "look at bytes" : "look at more than \(seen) bytes", nil)
    }
  }
}
