import ActorSockets
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct FilterBudgetTests {
  @Test func `While a filter drops a flood, others are answered`() async throws {
    let reactor = Reactor()
    let order = Notes<String>()
    func bind(_ filter: @escaping UDPEndpoint.Filter) throws -> UDPEndpoint {
      try DatagramTransport.ipv4.bind(on: reactor) {
        $0.receiveBufferSize = 4 << 20
        $0.receiveFilter = filter
      }
    }
    let other = try bind { _ in
      order.add("passed")
      return .pass
    }
    let question = try RawSocket(owning: OwnedDescriptor.datagramSocket(family: SocketKind.ipv4).release())
    let target = other.localAddresses[0]
    let isAsked = Gate()
    let flooded = try bind { _ in
      order.add("dropped")
      // From here, because epoll may report the other endpoint first if both have a datagram.
      if !isAsked.isOpen {
        isAsked.open()
        let bytes: [UInt8] = [3]
        _ = BorrowedDescriptor(question.number).send(bytes.span, to: target)
      }
      return .drop
    }
    let flood = Task.immediate { try await flooded.receive() }
    let served = Task.immediate { try await other.receive() }
    let sender = try DatagramTransport.ipv4.bind(reactor: Reactor())
    try await reactor.whileBlocked {
      // No more than the buffer has room for, and more than two budgets: one at the event, and another one in the same iteration.
      for _ in 0..<2000 { try await sender.send([2], to: flooded.localAddresses[0]) }
    }
    _ = try await served.value
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
