import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// The budgets of the page with the limits: others are answered while a socket, or a worker, has more to do than its budget.
///
/// Budgets that have such a test elsewhere: accepting (`AcceptBudgetTests`), filters (`FilterBudgetTests`), the input of a connection that
/// closes (`LingeringTests`), reads and writes of streams (`FairnessTests`, `HeldUpReactorTests`), the working time of an iteration
/// (`StarvationTests`).
@Suite struct LimitBudgetTests {
  @Test func `Others are answered while an endpoint sends many datagrams`() async throws {
    try await within("both are done") {
      let reactor = Reactor()
      let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
      let sentBefore = Notes<UInt64>()
      var configuration = UDPEndpoint.Configuration()
      // The filter is called when the datagram is fetched, before any job.
      configuration.receiveFilter = { _ in
        sentBefore.add(sender.assumeIsolated { $0.counts.datagramsSent })
        return .pass
      }
      let other = try UDPEndpoint.bind(
        to: .address(.ipv4(.loopback, port: 0)), configuration: configuration, reactor: reactor)
      let served = Task.immediate { try await other.receive() }
      let question = try RawSocket(owning: OwnedDescriptor.datagramSocket(family: SocketKind.ipv4).release())
      let budget = SendQueue<Int>.budget.operations
      let batch = Array(repeating: Datagram([1], to: receiver.localAddresses[0]), count: 20 * budget)
      let target = other.localAddresses[0]
      sender.submit { sender in
        // The first budget is sent here, and the question arrives behind it.
        sender.sendsAtOnce(batch)
        let bytes: [UInt8] = [2]
        _ = BorrowedDescriptor(question.number).send(bytes.span, to: target)
      }
      #expect(try await served.value.bytes == [2])
      try await eventually("the batch is sent") { await sender.metrics.pendingSends == 0 }
      let before = try #require(sentBefore.all.first)
      // One budget for each iteration. An iteration that has used its time leaves events to the next ones.
      #expect(
        (UInt64(budget)...UInt64(5 * budget)).contains(before), "\(before) were sent before the other was answered")
      #expect(await sender.metrics.datagramsSent == UInt64(20 * budget))
    }
  }

  @Test func `A call is carried out while more sockets are ready than one look fetches`() async throws {
    try await within("all are read") {
      let reactor = Reactor()
      let count = EventBuffer.capacity + 100
      let read = Locked(0)
      var peers: [RawSocket] = []
      var reading: [Task<[UInt8], any Error>] = []
      for _ in 0..<count {
        let (near, far) = try RawSocket.unixPair()
        let connection = try TCPConnection.adopt(fileDescriptor: near.release(), reactor: reactor)
        reading.append(
          Task.immediate { try await connection.read(exactly: 1) { _, _ in read.withLock { $0 += 1 } } })
        try await eventually("the read waits") { await connection.status.queuedReads == 1 }
        peers.append(far)
      }
      let readBefore = Notes<Int>()
      try await reactor.whileBlocked {
        for peer in peers { try peer.send([1]) }
        reactor.submit { readBefore.add(read.withLock { $0 }) }
      }
      for task in reading { #expect(try await task.value == [1]) }
      let before = try #require(readBefore.all.first)
      #expect(before <= EventBuffer.capacity, "\(before) sockets were served before the call")
    }
  }

  @Test func `Other tasks run while workers never run out of short jobs`() async throws {
    let isOver = Gate()
    defer { isOver.open() }
    let endless = (0..<100 * WorkerPool.shared.mostWorkers).map { _ in
      Task(executorPreference: WorkerPool.shared) {
        while !isOver.isOpen { await Task.yield() }
      }
    }
    try await within("other tasks have run") {
      for _ in 0..<20 { await Task(executorPreference: globalConcurrentExecutor) {}.value }
    }
    isOver.open()
    for task in endless { await task.value }
  }
}
