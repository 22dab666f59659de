public import SocketSystem

/// Where a stream is in its life.
public enum StreamState: Hashable, Sendable {
  /// Not yet up; reads and writes queue.
  case connecting
  /// Up.
  case open
  /// Closing: what was written before is still being sent.
  case closing
  /// Gone. ``ByteStream/takeBuffered()`` still works.
  case closed
}

/// How a stream ended.
public struct CloseReport: Sendable {
  /// Who or what ended it.
  public enum Reason: Sendable {
    /// This side closed or aborted it.
    case local
    /// This side closed it after the peer had finished.
    case remote
    /// The peer reset it.
    case reset
    /// The peer did not answer any more, or did not take the last bytes before the close timeout; or an operation timed out and
    /// the configuration says to close the connection in that case.
    case timedOut
    /// Something else failed: it could not connect, the reactor was shut down.
    case error(SocketError)
  }

  /// Who or what ended it.
  public let reason: Reason
  /// The bytes that were received from the peer.
  public let bytesReceived: Int
  /// The bytes that were handed to the kernel for sending.
  public let bytesSent: Int
  /// The bytes that were written but not handed to the kernel.
  public let bytesUnsent: Int
}

/// What a stream has moved, and what the kernel knows of it.
public struct StreamMetrics: Hashable, Sendable {
  /// The bytes received from the peer.
  public var bytesReceived = 0
  /// The bytes handed to the kernel for sending.
  public var bytesSent = 0
  /// What TCP knows of the connection, asked of the kernel for this: getsockopt(2). `nil` for streams that are none of TCP, and
  /// when the descriptor is gone.
  public var tcp: TCPInfo?
}

/// What a stream's queues hold.
public struct StreamStatus: Hashable, Sendable, CustomStringConvertible {
  /// How far one transfer has come, in bytes.
  public struct Progress: Hashable, Sendable {
    /// What is done.
    public let done: Int
    /// What there will be; `nil` for a read that ends at a delimiter or with what there is.
    public let total: Int?
  }

  /// Where the stream is in its life.
  public let state: StreamState
  /// The reads that wait, the one under way included.
  public let queuedReads: Int
  /// The writes that wait, the one under way included.
  public let queuedWrites: Int
  /// The bytes of those writes that are not sent.
  public let unsentBytes: Int
  /// The bytes that arrived and that nobody has read.
  public let bufferedBytes: Int
  /// The progress of the first read.
  public let readProgress: Progress?
  /// The progress of the first write.
  public let writeProgress: Progress?

  /// One line for logs.
  public var description: String {
    func text(_ progress: Progress?) -> String {
      progress.map { " at \($0.done)" + ($0.total.map { "/\($0)" } ?? "") } ?? ""
    }
    return "\(state), \(queuedReads) reads\(text(readProgress)), \(queuedWrites) writes\(text(writeProgress)), "
      + "\(unsentBytes) bytes unsent, \(bufferedBytes) bytes unread"
  }
}

extension StreamCore {
  /// What it has moved.
  var metrics: StreamMetrics {
    StreamMetrics(bytesReceived: traffic.received, bytesSent: traffic.sent, tcp: transport.tcpInfo)
  }

  /// The bytes that were written and that are not sent; if only encrypted ones are left, those.
  var unsentBytes: Int { writes.queue.queuedBytes > 0 ? writes.queue.queuedBytes : transport.heldBackBytes }

  /// What the queues hold.
  var status: StreamStatus {
    var readProgress: StreamStatus.Progress?
    if let first = reads.queue.first {
      if case .exactly(let total, _) = first.kind {
        readProgress = .init(done: min(reads.queue.buffer.count, total), total: total)
      } else {
        readProgress = .init(done: reads.queue.buffer.count, total: nil)
      }
    }
    return StreamStatus(
      state: state, queuedReads: reads.queue.count, queuedWrites: writes.queue.count, unsentBytes: unsentBytes,
      bufferedBytes: reads.queue.buffer.count, readProgress: readProgress,
      writeProgress: writes.queue.first.map { .init(done: $0.sent, total: $0.total) })
  }
}
