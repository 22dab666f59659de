import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct FaultPlanTests {
  @Test func `Only calls that make a descriptor count until descriptors run out`() {
    var plan = FaultPlan([.emfile(after: 2)])
    #expect(plan.makeDescriptor(.socket) { 7 } == 7)
    #expect(plan.makeDescriptor(.accept) { -Errno.wouldBlock } == -Errno.wouldBlock)
    #expect(plan.makeDescriptor(.accept) { 8 } == 8)
    for call in [CallFault.Call.socket, .accept, .socket] {
      var isMade = false
      let result = plan.makeDescriptor(call) {
        isMade = true
        return 9
      }
      #expect(result == -Errno.processDescriptors && !isMade)
    }
    // Other calls make none.
    #expect(plan.error(of: .connect) == nil && plan.shortened(10, isRead: true) == 10)
  }

  @Test func `A call that another fault hits makes no descriptor`() {
    var plan = FaultPlan([.fail(.accept, with: .noMemory, probability: 1), .emfile(after: 1)])
    for _ in 0..<3 { #expect(plan.makeDescriptor(.accept) { 7 } == -Errno.noMemory) }
    #expect(plan.makeDescriptor(.socket) { 7 } == 7)
    #expect(plan.makeDescriptor(.socket) { 8 } == -Errno.processDescriptors)
  }

  @Test func `The scarcest of several shortages counts, and a negative one counts as zero`() {
    var plan = FaultPlan([.emfile(after: 5), .emfile(after: -1)])
    #expect(plan.makeDescriptor(.socket) { 7 } == -Errno.processDescriptors)
  }
}
