import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// The state of `UDPEndpoint.serve`, without endpoints and clocks.
@Suite struct DatagramServerTests {
  private static func server(
    handlers: Int = 2, _ overflow: UDPEndpoint.Overflow = .wait, queueBudget: Int = 1_000
  ) -> DatagramServer {
    var server = DatagramServer()
    server.started(.init(handlers: handlers, overflow: overflow, queueBudget: queueBudget))
    return server
  }

  private func step(_ server: DatagramServer) -> String {
    switch server.step() {
    case .handle: "handle"
    case .receive(let limit): "receive \(limit)"
    case .receiveArrived(let limit): "receive \(limit) of those that arrived"
    case .wait: "wait"
    case .stop: "stop"
    }
  }

  private func receive(_ server: inout DatagramServer, _ numbers: Range<UInt8>, size: Int = 44) -> [UInt8] {
    numbers.compactMap { number in
      server.received(Datagram([number] + [UInt8](repeating: 0, count: size - 1)))
      return server.nextToHandle()?.bytes[0]
    }
  }

  private func rest(_ server: inout DatagramServer) -> [UInt8] {
    var numbers: [UInt8] = []
    while server.handlerEnded(.finished) || numbers.isEmpty, let next = server.nextToHandle() {
      numbers.append(next.bytes[0])
    }
    return numbers
  }

  @Test func `A server that waits receives as many datagrams as it has free handlers`() {
    var server = Self.server(handlers: 3)
    #expect(step(server) == "receive 3")
    #expect(receive(&server, 0..<2) == [0, 1] && step(server) == "receive 1")
    #expect(receive(&server, 2..<3) == [2] && step(server) == "wait")
    _ = server.handlerEnded(.failed)
    #expect(step(server) == "receive 1")
  }

  @Test func `When the queue is full, the oldest datagrams are dropped`() {
    // Each counts 300 bytes.
    var server = Self.server(.dropOldest, queueBudget: 900)
    #expect(receive(&server, 0..<6) == [0, 1] && server.waitingCount == 3 && server.report.unserved == 1)
    #expect(step(server) == "receive 32")
    #expect(rest(&server) == [3, 4, 5])
  }

  @Test func `When the queue is full, the newest datagrams are dropped`() {
    var server = Self.server(.dropNewest, queueBudget: 900)
    #expect(receive(&server, 0..<6) == [0, 1] && server.waitingCount == 3 && server.report.unserved == 1)
    #expect(rest(&server) == [2, 3, 4])
  }

  @Test(arguments: [UDPEndpoint.Overflow.dropOldest, .dropNewest])
  func `A queue of no bytes keeps nothing, and free handlers get their datagrams`(overflow: UDPEndpoint.Overflow) {
    var server = Self.server(overflow, queueBudget: 0)
    #expect(receive(&server, 0..<5) == [0, 1] && server.waitingCount == 0 && server.report.unserved == 3)
  }

  @Test func `An endpoint that is drained before it is served is not served`() {
    var server = DatagramServer()
    let end = server.drained(.within(.seconds(1)), at: 0) { 1 }
    #expect(end == nil && server.isDrainedEarly && !server.isServing && !server.isDraining)
  }

  @Test func `A notice that ends begins the drain, whose end nothing puts off`() {
    var server = Self.server(handlers: 1)
    let notice = server.drained(.within(.nanoseconds(50), notice: .nanoseconds(20)), at: 100) { 10_000 }
    #expect(notice == 120 && server.isNoticed && !server.isDraining && step(server) == "receive 1")
    let end = server.noticeIsOver(at: 110) { 10_000 }
    #expect(end == 160 && !server.isNoticed && step(server) == "receive 1 of those that arrived")
    let later = server.drained(.within(.nanoseconds(500)), at: 120) { 10_000 }
    #expect(later == 160)
  }

  @Test func `A drain receives what waits until nothing is left, and stops when no datagram waits for a handler`() {
    var server = Self.server(handlers: 1, .dropNewest)
    let end = server.drained(.within(.nanoseconds(50)), at: 100) { 10_000 }
    #expect(end == 150 && step(server) == "receive 32 of those that arrived")
    #expect(receive(&server, 0..<3) == [0] && step(server) == "receive 32 of those that arrived")
    server.nothingIsLeft()
    #expect(step(server) == "wait" && server.waitingCount == 2)
    #expect(rest(&server) == [1, 2] && step(server) == "stop" && server.handlers == 0)
  }

  @Test func `A flood does not keep a drain from stopping`() {
    var server = Self.server(handlers: 100)
    _ = server.drained(.within(.seconds(9)), at: 0) { 1_500 }
    var received: UInt8 = 0
    while step(server).hasSuffix("arrived"), received < 100 {
      server.fetched(1, bytes: 44)
      // A filter has dropped every second one.
      if received.isMultiple(of: 2) { _ = receive(&server, received..<received + 1) }
      received += 1
    }
    #expect(received == 5 && step(server) == "stop")
  }

  @Test func `After the drain, what waited is dropped, and the handlers that run are aborted`() {
    var server = Self.server(.dropNewest)
    _ = receive(&server, 0..<4)
    _ = server.drained(.within(.seconds(9)), at: 0) { 1_000 }
    server.drainIsOver()
    let next = server.nextToHandle()
    #expect(step(server) == "stop" && !server.hasHandlers && next == nil)
    server.abortRemaining()
    let isCounted = server.handlerEnded(.finished)
    #expect(!isCounted)
    let report = server.report
    #expect(report.received == 4 && report.aborted == 2 && report.unserved == 2 && report.finished == 0)
    server.ended()
    #expect(!server.isServing)
  }

  @Test(arguments: 0..<200 as Range<UInt64>)
  func `Each datagram is counted once, handlers begin in order, and the limits hold`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let most = Int.random(in: 1...4, using: &random)
    let overflow = [UDPEndpoint.Overflow.wait, .dropOldest, .dropNewest].randomElement(using: &random) ?? .wait
    let limit = Int.random(in: 0...2_000, using: &random)
    var server = Self.server(handlers: most, overflow, queueBudget: limit)
    var (next, running, last, isOver): (UInt8, Int, Int, Bool) = (0, 0, -1, false)
    func start(_ server: inout DatagramServer) {
      while let datagram = server.nextToHandle() {
        #expect(Int(datagram.bytes[0]) > last && !isOver)
        (last, running) = (Int(datagram.bytes[0]), running + 1)
      }
    }
    for now in 0..<120 as Range<Int64> {
      switch Int.random(in: 0..<10, using: &random) {
      case 0...4:
        guard case .receive(let room) = server.step(), next < 200 else { continue }
        for _ in 0..<Int.random(in: 0...min(room, 8), using: &random) {
          server.received(Datagram([next] + [UInt8](repeating: 0, count: Int.random(in: 0...300, using: &random))))
          next += 1
          start(&server)
        }
      case 5...7 where running > 0:
        let end = [HandlerEnd.finished, .failed, .failedByPeer].randomElement(using: &random) ?? .failed
        let isCounted = server.handlerEnded(end)
        #expect(isCounted)
        running -= 1
        start(&server)
      case 8 where now > 100:
        isOver = server.drained(.within(.nanoseconds(Int64.random(in: 0...9, using: &random))), at: now) { 500 } == nil
      case 9 where now > 100 && server.isDraining: server.nothingIsLeft()
      default: break
      }
      #expect(running <= most && server.handlers == running)
      #expect(running == most || server.waitingCount == 0 || isOver)
      #expect(server.waitingCount * DatagramServer.overhead <= limit)
      if overflow == .wait { #expect(server.waitingCount == 0 && server.report.unserved == 0) }
    }
    server.abortRemaining()
    let report = server.report
    let ended = report.finished + report.failed + report.failedByPeer
    #expect(report.received == Int(next) && report.aborted == running)
    #expect(report.received == ended + report.aborted + report.unserved)
  }
}
