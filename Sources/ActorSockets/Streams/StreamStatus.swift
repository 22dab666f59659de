public import SocketSystem

/// The stage of a stream's life.
@nonexhaustive
public enum StreamState: Hashable, Sendable {
  /// The stream is not up yet. Reads and writes queue.
  case connecting
  /// The stream is up.
  case open
  /// The stream is closing. Bytes that were written before are still being sent.
  case closing
  /// The stream has ended. ``ByteStream/takeBuffered()`` still works.
  case closed
}

/// The bytes that a stream has moved, and the kernel's figures for its connection.
public struct StreamMetrics: Hashable, Sendable {
  /// The bytes received from the peer.
  public var bytesReceived = 0
  /// The bytes handed to the kernel for sending.
  public var bytesSent = 0
  /// The kernel's figures for a TCP connection: getsockopt(2) with TCP_INFO, tcp(7). `nil` for other streams, and
  /// when the descriptor is closed.
  public var tcp: TCPInfo?
}

/// The contents of a stream's queues.
public struct StreamStatus: Hashable, Sendable, CustomStringConvertible {
  /// The progress of one operation, in bytes.
  public struct Progress: Hashable, Sendable {
    /// The number of bytes that were transferred.
    public let done: Int
    /// The total number of bytes; `nil` for a read whose length is not known in advance.
    public let total: Int?
  }

  /// Where the stream is in its life.
  public let state: StreamState
  /// The number of reads that wait or are under way.
  public let queuedReads: Int
  /// The number of writes that wait or are under way.
  public let queuedWrites: Int
  /// The number of bytes of those writes that are not sent.
  public let unsentBytes: Int
  /// The number of bytes that arrived and that no read has taken.
  public let bufferedBytes: Int
  /// The progress of the first read.
  public let readProgress: Progress?
  /// The progress of the first write.
  public let writeProgress: Progress?

  /// A line for logs.
  public var description: String {
    func text(_ progress: Progress?) -> String {
      progress.map { " at \($0.done)" + ($0.total.map { "/\($0)" } ?? "") } ?? ""
    }
    func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
    let reads = count(queuedReads, "read") + text(readProgress)
    let writes = count(queuedWrites, "write") + text(writeProgress)
    return "\(state), \(reads), \(writes), \(count(unsentBytes, "byte")) unsent, \(count(bufferedBytes, "byte")) unread"
  }
}

extension StreamCore {
  var metrics: StreamMetrics {
    StreamMetrics(bytesReceived: bytesReceived, bytesSent: bytesSent, tcp: transport.tcpInfo)
  }

  /// The number of bytes that were written and not sent. If only ciphertext is left, its number.
  var unsentBytes: Int { writes.queue.queuedBytes > 0 ? writes.queue.queuedBytes : unsentCiphertext }

  var status: StreamStatus {
    reads.queue.reclaimLookahead()
    // The entries of an upgrade are no operations of the user.
    let waitingReads = upgrade == nil ? reads.queue.count : reads.queue.all.count { !$0.tag.isUpgrade }
    let waitingWrites = upgrade == nil ? writes.queue.count : writes.queue.all.count { $0.tag?.isUpgrade != true }
    var readProgress: StreamStatus.Progress?
    if waitingReads > 0, let first = reads.queue.first {
      if case .exactly(let total, _) = first.kind {
        readProgress = .init(done: min(reads.queue.buffer.count, total), total: total)
      } else {
        readProgress = .init(done: reads.queue.buffer.count, total: nil)
      }
    }
    return StreamStatus(
      state: state, queuedReads: waitingReads, queuedWrites: waitingWrites, unsentBytes: unsentBytes,
      bufferedBytes: reads.queue.buffer.count, readProgress: readProgress,
      writeProgress: waitingWrites == 0 ? nil : writes.queue.first.map { .init(done: $0.sent, total: $0.total) })
  }
}
