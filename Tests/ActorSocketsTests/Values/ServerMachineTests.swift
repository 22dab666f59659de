import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// The state of `serve`, without listeners, connections or clocks.
@Suite struct ServerMachineTests {
  private static func server(_ limits: ServeLimits = .init(connections: 2), descriptors: Int = .max) -> Server<Int> {
    var server = Server<Int>()
    server.started(limits, descriptors: descriptors)
    return server
  }

  private static let peer = SocketAddress.ipv4(IPv4Address(192, 0, 2, 1), port: 9)

  private func step(_ server: inout Server<Int>) -> String {
    switch server.step() {
    case .accept: "accept"
    case .wait(let lingering): lingering.map { "wait for \($0.connection)" } ?? "wait"
    case .stop: "stop"
    }
  }

  private func accept(_ server: inout Server<Int>, _ number: Int) {
    #expect(step(&server) == "accept")
    _ = server.accepted(number, UInt64(number), from: Self.peer)
  }

  // MARK: Drains

  @Test func `A listener that is drained before it is served is not served`() {
    var server = Server<Int>()
    let end = server.drained(.within(.seconds(1)), at: 0) { [1] }
    #expect(end == nil && server.isDrainedEarly && !server.isServing && !server.isDraining)
    server.drainIsOver()
    #expect(server.isDrainedEarly)
  }

  @Test func `A drain accepts what waited when it began, and nothing more`() {
    var server = Self.server(ServeLimits(connections: 10))
    accept(&server, 1)
    let end = server.drained(.within(.nanoseconds(50)), at: 100) { [1, 0, 2] }
    #expect(end == 150 && server.isDraining && server.hasBacklog)
    #expect((0..<4).map { server.mayTakeConnection(of: $0) } == [true, false, true, false])
    accept(&server, 2)
    server.tookConnection(of: 0)
    server.refusedConnection(of: 2)
    #expect((0..<3).map { server.mayTakeConnection(of: $0) } == [false, false, true])
    server.tookConnection(of: 2)
    #expect(step(&server) == "stop" && server.hasConnections)
    #expect(server.report.accepted == 2 && server.report.refused == 1)
  }

  @Test func `During a notice the server serves as before, and then the drain begins`() {
    var server = Self.server()
    let drain = Drain.within(.nanoseconds(50), notice: .nanoseconds(20))
    let end = server.drained(drain, at: 100) { [1] }
    #expect(end == 120 && server.isNoticed && !server.isDraining && server.isServing)
    accept(&server, 1)
    #expect(server.mayTakeConnection(of: 0) && server.idleReads == nil)
    // A later notice changes nothing, an earlier one does.
    let later = server.drained(drain, at: 110) { [1] }
    #expect(later == 120)
    let earlier = server.drained(.within(.nanoseconds(9), notice: .nanoseconds(5)), at: 110) { [1] }
    #expect(earlier == 115)
    let drained = server.noticeIsOver(at: 115) { [1] }
    #expect(drained == 124 && server.isDraining && !server.isNoticed && server.hasBacklog)
    // There is no way back.
    let noticed = server.drained(drain, at: 116) { [1] }
    let again = server.noticeIsOver(at: 117) { [9] }
    #expect(noticed == 124 && again == nil && server.isDraining && !server.isNoticed)
  }

  @Test func `A drain without a notice ends the notice`() {
    for drain in [Drain.within(.nanoseconds(50)), .immediately] {
      var server = Self.server()
      _ = server.drained(.within(.nanoseconds(50), notice: .nanoseconds(20)), at: 100) { [1] }
      let end = server.drained(drain, at: 101) { [1] }
      #expect(end == (drain == .immediately ? nil : 151) && server.isDraining && !server.isNoticed)
    }
  }

  @Test(arguments: [true, false])
  func `A listener that is closed during a notice has nothing to wait for: its drain begins`(isEndless: Bool) {
    var server = Self.server()
    accept(&server, 1)
    let notice = isEndless ? Duration.seconds(Int64.max) : .nanoseconds(20)
    _ = server.drained(.within(.nanoseconds(50), notice: notice), at: 100) { [7] }
    let end = server.listeningEnded(at: 110)
    #expect(end == 160 && server.isDraining && !server.isNoticed && !server.hasBacklog)
    #expect(step(&server) == "stop" && server.hasConnections)
    let again = server.listeningEnded(at: 120)
    #expect(again == nil && !server.isNoticed)
  }

  @Test func `A server that cannot go on is over, whether it drains or not`() {
    for drain in [nil, Drain.within(.nanoseconds(50)), .within(.nanoseconds(50), notice: .nanoseconds(20))] {
      var server = Self.server(.init(connections: 1))
      accept(&server, 1)
      if let drain { _ = server.drained(drain, at: 100) { [1] } }
      server.drainIsOver()
      #expect(step(&server) == "stop" && !server.hasConnections && !server.isNoticed)
      #expect(server.idleReads == (drain == nil ? .wait : .endMessages))
    }
  }

  @Test func `Of several drains the earliest end counts, and the one that ends most idle reads`() {
    var server = Self.server()
    let first = server.drained(.within(.nanoseconds(50), idleReads: .wait), at: 0) { [3] }
    let longer = server.drained(.within(.nanoseconds(90), idleReads: .endAll), at: 0) { [9] }
    #expect(first == 50 && longer == 50 && server.idleReads == .endAll)
    let shorter = server.drained(.within(.nanoseconds(20), idleReads: .endMessages), at: 10) { [9] }
    #expect(shorter == 30 && server.idleReads == .endAll)
    // The backlog is that of the first one.
    for _ in 0..<3 { server.tookConnection(of: 0) }
    #expect(!server.hasBacklog)
    let last = server.drained(.immediately, at: 11) { [9] }
    #expect(last == nil && server.isDraining && !server.mayTakeConnection(of: 0))
    let none = server.drained(.within(.nanoseconds(50)), at: 12) { [9] }
    #expect(none == nil && step(&server) == "stop" && server.idleReads == .endAll)
  }

  @Test(arguments: [true, false])
  func `Nothing more is accepted once the listener is closed or the drain is over`(isClosed: Bool) {
    var server = Self.server()
    accept(&server, 1)
    _ = server.drained(.within(.seconds(1)), at: 0) { [5] }
    if isClosed { _ = server.listeningEnded(at: 0) } else { server.drainIsOver() }
    #expect(!server.mayTakeConnection(of: 0) && step(&server) == "stop")
    // A drain that is over waits for no handler.
    #expect(server.hasConnections == isClosed)
    #expect(server.takeRemaining() == [1] && server.report.aborted == 1)
    let isCounted = server.handlerEnded(1, .finished)
    #expect(!isCounted && server.report.finished == 0)
  }

  // MARK: Limits

  @Test func `A connection counts from its acceptance on, until it only waits for its peer`() {
    var server = Self.server()
    accept(&server, 1)
    #expect(step(&server) == "accept")
    #expect(step(&server) == "wait")
    server.acceptFailed()
    accept(&server, 2)
    #expect(step(&server) == "wait")
    let isCounted = server.handlerEnded(1, .finished)
    #expect(isCounted && step(&server) == "wait", "it is closing")
    server.lingers(1, 1, since: 7)
    accept(&server, 3)
    server.closed(1)
    #expect(server.lingering.count == 0 && server.closing == 0)
  }

  @Test func `The next connection waits for the descriptor of the one that has waited longest for its peer`() {
    var server = Self.server(ServeLimits(connections: 10), descriptors: 2)
    for number in [1, 2] {
      accept(&server, number)
      _ = server.handlerEnded(UInt64(number), .finished)
      server.lingers(number, UInt64(number), since: 0)
    }
    #expect(step(&server) == "wait for 1")
    #expect(server.takeLingering(ifMoreThan: 1) == 1)
    #expect(step(&server) == "wait for 2", "the first one has its descriptor until it is closed")
    server.closed(1)
    #expect(step(&server) == "accept")
  }

  // MARK: The model

  @Test(arguments: 1...300 as ClosedRange<UInt64>)
  func `Each connection is counted once, and the limits hold, whatever comes in which order`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let most = Int.random(in: 1...4, using: &random)
    var server = Self.server(ServeLimits(connections: most), descriptors: Int.random(in: 2...6, using: &random))
    var (running, closing, lingering): ([Int], [Int], [Int]) = ([], [], [])
    var (next, isAccepting, mayBeAccepted) = (1, false, Int.max)
    // Those that waited for their peers, and are closed because their descriptors are needed.
    var evicted: Set<Int> = []
    for now in 0..<120 as Range<Int64> {
      switch Int.random(in: 0..<12, using: &random) {
      case 0...3 where !isAccepting:
        guard case .accept = server.step() else { continue }
        isAccepting = true
        #expect(running.count + closing.count < most && mayBeAccepted > 0)
      case 0...3:
        isAccepting = false
        if !server.mayTakeConnection(of: 0) || Bool.random(using: &random) {
          server.acceptFailed()
          continue
        }
        server.tookConnection(of: 0)
        _ = server.accepted(next, UInt64(next), from: Self.peer)
        running.append(next)
        (next, mayBeAccepted) = (next + 1, mayBeAccepted - 1)
      case 4...6:
        guard let connection = running.randomElement(using: &random) else { continue }
        running.removeAll { $0 == connection }
        let end = [HandlerEnd.finished, .failed, .failedByPeer].randomElement(using: &random) ?? .failed
        let isCounted = server.handlerEnded(UInt64(connection), end)
        #expect(isCounted)
        closing.append(connection)
      case 7:
        guard let connection = closing.popLast() else { continue }
        server.lingers(connection, UInt64(connection), since: now)
        lingering.append(connection)
      case 8:
        guard let connection = (closing + lingering).randomElement(using: &random) else { continue }
        server.closed(UInt64(connection))
        closing.removeAll { $0 == connection }
        lingering.removeAll { $0 == connection }
      case 9:
        let limit = Int.random(in: 0...2, using: &random)
        guard let connection = server.takeLingering(ifMoreThan: limit) else { continue }
        #expect(connection == lingering.first && lingering.count > limit)
        lingering.removeFirst()
        closing.append(connection)
        evicted.insert(connection)
      case 10 where now > 60:
        let waiting = Int.random(in: 0...3, using: &random)
        let drain = Drain.within(.nanoseconds(Int64.random(in: 0...90, using: &random)))
        let wasDraining = server.isDraining
        let end = server.drained(drain, at: now) { [waiting] }
        if !wasDraining { mayBeAccepted = waiting }
        if end == nil { mayBeAccepted = 0 }
      case 11 where now > 60:
        _ = server.listeningEnded(at: now)
        if server.isDraining { mayBeAccepted = 0 }
      default: break
      }
      let report = server.report
      #expect(server.active.count == running.count && server.closing == closing.count)
      #expect(server.lingering.count == lingering.count)
      #expect(report.accepted == report.finished + report.failed + report.failedByPeer + running.count)
      #expect(running.count + closing.count(where: { !evicted.contains($0) }) <= most)
    }
    let remaining = server.takeRemaining()
    #expect(remaining.sorted() == running.sorted() && server.report.aborted == running.count)
    for connection in running { _ = server.handlerEnded(UInt64(connection), .finished) }
    for connection in running + closing + lingering { server.closed(UInt64(connection)) }
    let report = server.report
    #expect(report.accepted == report.finished + report.failed + report.failedByPeer + report.aborted)
    #expect(!server.hasConnections && server.peers.peers == 0)
    server.ended()
    #expect(!server.isServing)
  }
}
