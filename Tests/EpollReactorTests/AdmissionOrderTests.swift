import TestSupport
import Testing

@testable import EpollReactor

@Suite struct AdmissionOrderTests {
  @Test func `A direct call is granted while no call waits in the queue`() {
    let order = AdmissionOrder()
    #expect(order.claim() == .granted)
    #expect(order.claim() == .granted)
  }

  @Test func `A direct call must go behind a call that waits in the queue`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    #expect(order.claim() == .requeue)
    #expect(order.claim() == .requeue, "the answer itself changes nothing")
  }

  @Test func `The job of a queued call has its place, ahead of the calls behind it`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claim() == .granted)
  }

  @Test func `A place is used once`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claim() == .granted)
    #expect(order.claim() == .requeue)
  }

  @Test func `A used place does not come back with the end of the queue`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.queuedCallBegins()
    order.placeIsUsed()
    #expect(order.claim() == .granted, "no call waits")
    order.callWasQueued()
    #expect(order.claim() == .requeue)
  }

  @Test func `A job that queues another call loses its place`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.queuedCallBegins()
    // What `ReactorExecutor.queue` does.
    order.placeIsUsed()
    order.callWasQueued()
    #expect(order.claim() == .requeue)
  }

  @Test func `A job that continues a suspended call has no place`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.queuedCallBegins()
    // The call suspended without a claim; what continues it is no queued call.
    order.placeIsUsed()
    order.callWasQueued()
    #expect(order.claim() == .requeue)
  }

  @Test func `A requeued call is granted in its new place`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    #expect(order.claim() == .requeue)
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claim() == .granted)
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claim() == .granted)
  }

  @Test func `A queued call that begins gives its job the place that the job before did not use`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.queuedCallBegins()
    order.callWasQueued()
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claim() == .granted)
    #expect(order.claim() == .requeue)
  }

  @Test func `A call without a hop is granted while no call waits, also in a job without a place`() {
    let order = AdmissionOrder()
    #expect(order.claimWithoutHop() == .granted)
    order.callWasQueued()
    order.queuedCallBegins()
    order.placeIsUsed()
    #expect(order.claimWithoutHop() == .granted)
  }

  @Test func `A call without a hop has no use for the place of the running job, but uses it`() {
    let order = AdmissionOrder()
    order.callWasQueued()
    order.callWasQueued()
    order.queuedCallBegins()
    #expect(order.claimWithoutHop() == .requeue, "the place may be that of another job")
    #expect(order.claim() == .granted, "a claim that is not granted uses nothing")
    order.queuedCallBegins()
    #expect(order.claimWithoutHop() == .granted)
    order.callWasQueued()
    #expect(order.claim() == .requeue)
  }

  @Test func `The counts wrap`() {
    let order = AdmissionOrder(count: .max)
    #expect(order.claim() == .granted)
    order.callWasQueued()
    #expect(order.claim() == .requeue)
    order.queuedCallBegins()
    order.placeIsUsed()
    #expect(order.claim() == .granted)
  }

  /// The order that the transitions are about: direct calls begin only if every call made earlier has begun.
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
