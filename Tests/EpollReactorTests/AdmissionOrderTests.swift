import TestSupport
import Testing

@testable import EpollReactor

@Suite(.tags(.pure)) struct AdmissionOrderTests {
  @Test func `A place is used once, and does not come back with the end of the queue`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claimWithoutHop() == .requeue, "the place may be that of another job")
    #expect(order.claim() == .granted, "a claim that is not granted uses nothing")
    #expect(order.claim() == .requeue)
    order.queuedCallBegins()
    order.placeIsUsed()
    #expect(order.claim() == .granted, "no call waits")
    order.callWasQueued()
    #expect(order.claim() == .requeue)
  }

  @Test func `The counts wrap`() {
    let order = AdmissionOrder(count: .max)
    #expect(order.claim() == .granted)
    order.callWasQueued()
    #expect(order.claim() == .requeue)
    #expect(order.hasSettled == false)
    order.queuedCallBegins()
    order.placeIsUsed()
    #expect(order.claim() == .granted)
    order.callsAreSettled()
    #expect(order.hasSettled == true)
  }

  @Test func `A call is settled neither when it waits nor when it has only begun`() {
    let order = AdmissionOrder()
    #expect(order.hasSettled == true)
    order.callWasQueued()
    order.callsAreSettled()
    #expect(order.hasSettled == false)
    order.queuedCallBegins()
    #expect(order.hasSettled == false)
    order.callsAreSettled()
    #expect(order.hasSettled == true)
    order.callWasQueued()
    order.callsAreSettled()
    #expect(order.hasSettled == false)
  }

  /// A place is that of the queued call that began last, until it is used. The random steps have every order of a few transitions.
  @Test(arguments: 1...50 as ClosedRange<UInt64>)
  func `A direct call never begins before a call that was queued earlier`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let order = AdmissionOrder()
    var waiting = 0
    var hasPlace = false
    for step in 0..<500 {
      switch Int.random(in: 0..<5, using: &random) {
      case 4:
        let expected: AdmissionOrder.Claim = waiting == 0 ? .granted : .requeue
        #expect(order.claimWithoutHop() == expected, "step \(step) with seed \(seed)")
        if waiting == 0 { hasPlace = false }
      case 0:
        order.callWasQueued()
        waiting += 1
      case 1 where waiting > 0:
        order.queuedCallBegins()
        waiting -= 1
        hasPlace = true
      case 2:
        order.placeIsUsed()
        hasPlace = false
      default:
        let expected: AdmissionOrder.Claim = hasPlace || waiting == 0 ? .granted : .requeue
        #expect(order.claim() == expected, "step \(step) with seed \(seed)")
        hasPlace = false
      }
    }
  }
}
