import SocketSystem
import TestSupport

@testable import ActorSockets
@testable import EpollReactor

/// What the code says about the rows of the page with the limits that no boundary tries, or not whole: the values themselves, where tests can
/// see them, and otherwise the text of the sources.
enum LimitChecks {
  private static let connection = TCPConnection.Configuration()
  private static let listener = TCPListener.Configuration()
  private static let header = ProxyProtocol(.required, from: [])
  private static let loop = "EpollReactor/EventLoop.swift"
  private static let workers = "EpollReactor/WorkerPool.swift"

  static let all: [LimitCheck] = [
    LimitCheck("time that a reactor has to answer an inspection") { [.time(Inspection.patience)] },
    LimitCheck("clients of an inspection at a time; time that each has for the whole report") {
      [.number(Inspection.mostClients), .time(Inspection.clientTimeout)]
    },
    LimitCheck("small writes are sent at once (TCP_NODELAY)") { [.isOn(connection.noDelay)] },
    LimitCheck("closing when the peer has finished and everything was read") {
      [.isOn(connection.closesOnEndOfStream)]
    },
    LimitCheck("aborting when an enqueued write exceeds the write budget") {
      [.isOn(connection.onWriteOverflow != .fail)]
    },
    LimitCheck("closing when an operation times out") { [.isOn(connection.onTimeout != .keepOpen)] },
    LimitCheck("timeout of other operations") {
      for file in ["Reading", "Writing", "Sequences", "Moving"] {
        // Finds a number only if a default is not `nil`.
        let path = "ActorSockets/Streams/ByteStream+\(file).swift"
        if let other = try? SourceText.number(#"timeout: Timeout\? = (?!nil)(?:\D*)(\d+)"#, in: path) {
          return [.number(other)]
        }
      }
      return ["none"]
    },
    LimitCheck("time to discard input before a TCP socket is closed; while a server drains; if descriptors are short") {
      [
        .nanoseconds(Int(LingeringClose.limit)), .nanoseconds(Int(LingeringConnections<Int>.drainLimit)),
        .nanoseconds(Int(LingeringConnections<Int>.leastLimit)),
      ]
    },
    LimitCheck("time in which no byte moves") {
      [connection.liveness.idleTimeout.map { .time($0) } ?? "no limit"]
    },
    LimitCheck("time that sent bytes stay unacknowledged") {
      [connection.liveness.unacknowledgedTimeout.map { .time($0) } ?? "the system's"]
    },
    LimitCheck("connections of one peer") {
      [ServeLimits().connectionsPerPeer.map { .number($0) } ?? "no limit"]
    },
    LimitCheck("bytes of a PROXY header") { [.number(header.maximumLength), 1, .number(ProxyHeader.longestLine)] },
    LimitCheck("reactors of `serve`") {
      [
        .number(ServeOptions().reactors),
        .number(try SourceText.number(#"\(1\.\.\.(\d+)\)\.contains\(reactors\)"#, in: "ActorSockets/Serving")),
      ]
    },
    LimitCheck("binding while connections of an earlier listener are in TIME_WAIT") { [.isOn(listener.reuseAddress)] },
    LimitCheck("attempts to lock the directory of a unix socket") {
      let file = "SocketSystem/Files/UnixSocketFile.swift"
      let pause = try SourceText.number(#"poll\(nil, 0, (\d+)\)"#, in: file)
      return [
        .number(try SourceText.number(#"lockAttempts: Int \{ (\d+) \}"#, in: file)), .nanoseconds(pause * 1_000_000),
      ]
    },
    LimitCheck("working time of an iteration of the loop; of each kind of work, at least") {
      [
        .nanoseconds(try SourceText.number(#"static let length: Int64 = ([\d_]+)"#, in: loop)),
        .nanoseconds(try SourceText.number(#"static let leastBudget: Int64 = ([\d_]+)"#, in: loop)),
      ]
    },
    LimitCheck("pieces of one gathered send; bytes after which no further write is added") {
      let file = "ActorSockets/Streams/StreamCore+Pumps.swift"
      return [
        .number(BorrowedDescriptor.maximumPieces),
        .number(try SourceText.number(#"maximumBytes: ([\d_]+)"#, in: file)),
      ]
    },
    LimitCheck("bytes of one `sendfile`; of one piece of a file without a socket") {
      let file = "ActorSockets/Streams/StreamTransport.swift"
      // The kernel gets as much as the budget of an iteration.
      return [
        .number(Budget.stream.bytes), .number(try SourceText.number(#"atMost: min\(count, ([\d_]+)\)"#, in: file)),
      ]
    },
    LimitCheck("workers") {
      [.number(try SourceText.number(#"mostWorkers = max\((\d+), usableProcessors\(\)\)"#, in: workers))]
    },
    LimitCheck("jobs that a worker runs before it gives its thread back; time") {
      [
        .number(try SourceText.number(#"static let budget = (\d+)"#, in: workers)),
        .nanoseconds(try SourceText.number(#"timeBudget: Int64 = ([\d_]+)"#, in: workers)),
      ]
    },
    LimitCheck("the same with ``UDPEndpoint/Configuration/receiveOffload``") {
      // A message that the kernel joins has as many datagrams as one that it divides: UDP_MAX_SEGMENTS of the kernel.
      [
        .number(DatagramBatch.capacity(forSize: DatagramBatch.joinedSize)), .number(SegmentRun.mostDatagrams),
        .number(DatagramBatch.joinedSize),
      ]
    },
  ]
}
