import SocketSystem
import TestSupport

@testable import ActorSockets
@testable import ActorSocketsTesting
@testable import EpollReactor

extension LimitChecks {
  private static let listener = TCPListener.Configuration()
  private static let header = ProxyProtocol(.required, from: [])

  static let servers: [LimitCheck] = [
    LimitCheck("connections of `serve`") {
      let options = "ActorSockets/Serving/ServeOptions.swift"
      let most = try SourceText.number(#"Connections \?\? min\(([\d_]+),"#, in: options)
      let reserve = DescriptorReserve(limit: 1_000_000)
      return [.number(most), .number(reserve.limit - reserve.connections)]
    },
    LimitCheck("connections of one peer") {
      [ServeLimits().connectionsPerPeer.map { .number($0) } ?? "no limit"]
    },
    LimitCheck("connections that one listener accepts in one iteration of the loop, refused ones included") {
      [.number(AcceptPolicy.budget)]
    },
    LimitCheck("descriptors that accepting and connecting leave free") { [.number(DescriptorReserve.largest)] },
    LimitCheck("connections of a server that are closing and only wait for their peers, beside those of the limit") {
      [.number(LingeringConnections<Int>.most)]
    },
    LimitCheck("time for a PROXY header to arrive") { [.time(header.timeLimit)] },
    LimitCheck("bytes of a PROXY header") { [.number(header.maximumLength), 1, .number(ProxyHeader.longestLine)] },
    LimitCheck("fields of a PROXY header") {
      [.number(try SourceText.number(#"mostFields = (\d+)"#, in: "ActorSockets/Proxies/ProxyHeader+Parsing.swift"))]
    },
    LimitCheck("time for the handlers to end, in a drain") {
      [.nanoseconds(Int(ServeOptions().drain.nanoseconds))]
    },
    LimitCheck("time for the first byte of a connection, in a drain") {
      [.nanoseconds(Int(Drain.within(.seconds(30)).graceMilliseconds) * 1_000_000)]
    },
    LimitCheck("bytes of a line on standard error about a handler that failed") {
      [.number(try SourceText.number(#"longestLine: Int \{ ([\d_]+) \}"#, in: "SocketSystem"))]
    },
    LimitCheck("such lines that wait for a slow reader; further ones are dropped") {
      [.number(try SourceText.number(#"longestQueue: Int \{ ([\d_]+) \}"#, in: "SocketSystem"))]
    },
    LimitCheck("signals that wait for a program to take them, in a sequence") {
      let file = "ActorSockets/Signals/ProcessSignals.swift"
      return [.number(try SourceText.number(#"\.bufferingOldest\((\d+)\)"#, in: file))]
    },
    LimitCheck("reactors of `serve`") {
      [
        .number(ServeOptions().reactors),
        .number(try SourceText.number(#"\(1\.\.\.(\d+)\)\.contains\(options\.reactors\)"#, in: "ActorSockets/Serving")),
      ]
    },
    LimitCheck("connections in the kernel's backlog, at most `somaxconn`") { [.number(Int(listener.backlog))] },
    LimitCheck("connections in the backlog of a listener in memory; further calls that connect wait") {
      [.number(InMemoryListener.Configuration().backlog)]
    },
    LimitCheck("time that connecting to a listener in memory waits for room") {
      let pattern = #"timeout: Timeout\? = \.within\(\.seconds\((\d+)\)\)"#
      return [.seconds(try SourceText.number(pattern, in: "ActorSocketsTesting/InMemoryListener.swift"))]
    },
    LimitCheck("binding while connections of an earlier listener are in TIME_WAIT") { [.isOn(listener.reuseAddress)] },
    LimitCheck("pause after a failed accept") {
      var policy = AcceptPolicy()
      var pauses: [Int64] = []
      for _ in 0..<20 {
        if case .backOff(let pause) = policy.failed(errno: Errno.processDescriptors) { pauses.append(pause) }
      }
      return [pauses.first, pauses.last].compactMap { $0 }.map { .nanoseconds($0) }
    },
    LimitCheck("attempts to lock the directory of a unix socket") {
      let file = "SocketSystem/Files/UnixSocketFile.swift"
      let pause = try SourceText.number(#"poll\(nil, 0, (\d+)\)"#, in: file)
      return [
        .number(try SourceText.number(#"lockAttempts: Int \{ (\d+) \}"#, in: file)), .nanoseconds(pause * 1_000_000),
      ]
    },
    LimitCheck("sockets that systemd passes at the start") { [.number(SocketActivation.maximumCount)] },
  ]

  static let reactor: [LimitCheck] = [
    LimitCheck("working time of an iteration of the loop; of each kind of work, at least") {
      [
        .nanoseconds(try SourceText.number(#"static let length: Int64 = ([\d_]+)"#, in: loop)),
        .nanoseconds(try SourceText.number(#"static let leastBudget: Int64 = ([\d_]+)"#, in: loop)),
      ]
    },
    LimitCheck("events fetched with one `epoll_wait`") { [.number(EventBuffer.capacity)] },
    LimitCheck("scratch memory: bytes of one receive") { [.number(LoopMemory.scratchSize)] },
    LimitCheck("a socket's budget of an iteration, for each direction") {
      [.number(Budget.stream.operations), .number(Budget.stream.bytes)]
    },
    LimitCheck("turns that a socket gets before its deadline fires") { [.number(Deadline.maxTurns)] },
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
    LimitCheck("jobs that a reactor hands to the workers together; time for which it collects them") {
      [
        .number(try SourceText.number(#"static let most = (\d+)"#, in: "EpollReactor/Handover.swift")),
        .nanoseconds(try SourceText.number(#"longest: Int64 = ([\d_]+)"#, in: "EpollReactor/Handover.swift")),
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
    LimitCheck("iteration from which an observer hears of the lag") { [.time(SilentObserver().lagThreshold)] },
  ]
  private static let loop = "EpollReactor/EventLoop.swift"
  private static let workers = "EpollReactor/WorkerPool.swift"

  private struct SilentObserver: ReactorObserver {}
}
