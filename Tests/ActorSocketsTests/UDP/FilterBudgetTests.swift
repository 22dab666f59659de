import ActorSockets
import Dispatch
import SocketSystem
import TestSupport
import Testing

/// What filters drop has a budget, as all other work.
@Suite struct FilterBudgetTests {
  @Test func `While a filter drops a flood, others are answered`() async throws {
    try await within("both are served") {
      let reactor = Reactor()
      let (held, release) = (Gate(), DispatchSemaphore(value: 0))
      let order = Notes<String>()
      func bind(_ filter: @escaping UDPEndpoint.Filter) throws -> UDPEndpoint {
        var configuration = UDPEndpoint.Configuration()
        configuration.receiveBufferSize = 4 << 20
        configuration.receiveFilter = filter
        return try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), configuration: configuration, reactor: reactor)
      }
      let flooded = try bind { _ in
        order.add("dropped")
        return .drop
      }
      let other = try bind { _ in
        order.add("passed")
        return .pass
      }
      let flood = Task.immediate { try await flooded.receive() }
      let served = Task.immediate { try await other.receive() }
      let holder = try bind { _ in
        // The reactor's thread waits here until everything has arrived.
        held.open()
        release.wait()
        return .pass
      }
      let holding = Task.immediate { try await holder.receive() }
      let sender = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), reactor: Reactor())
      try await sender.send([1], to: holder.localAddresses[0])
      await held.wait()
      // No more than the buffer has room for, and more than two budgets: one at the event, and another one in the same iteration.
      for _ in 0..<2000 { try await sender.send([2], to: flooded.localAddresses[0]) }
      try await sender.send([3], to: other.localAddresses[0])
      release.signal()
      _ = try await (holding.value, served.value)
      try await eventually("the flood is over") {
        await flooded.metrics.datagramsFiltered + flooded.metrics.datagramsDropped == 2000
      }
      let all = order.all
      let before = all.prefix { $0 == "dropped" }.count
      #expect((1...600).contains(before), "\(before) were dropped before the other endpoint was served")
      flood.cancel()
      _ = try? await flood.value
    }
  }
}
