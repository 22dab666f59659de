import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct AcceptPolicyTests {
  @Test(arguments: [
    Errno.connectionAborted, Errno.protocolError, Errno.noProtocolOption, Errno.networkDown, Errno.networkUnreachable,
    Errno.hostDown, Errno.hostUnreachable, Errno.timedOut, Errno.connectionReset,
  ])
  func `A connection that ended before it was accepted is skipped, however often`(errno: Int32) {
    var policy = AcceptPolicy()
    for _ in 0..<100 { #expect(policy.failed(errno: errno) == .skip) }
    #expect(policy.failed(errno: Errno.processDescriptors) == .backOff(AcceptPolicy.firstDelay))
  }

  @Test(arguments: [
    Errno.processDescriptors, Errno.systemDescriptors, Errno.noBuffers, Errno.noMemory, Errno.notPermitted,
    Errno.permissionDenied, Errno.notSupported, 9999,
  ])
  func `When something is short it tries again, twice as late each time, up to a second`(errno: Int32) {
    var policy = AcceptPolicy()
    let milliseconds: [Int64] = [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]
    for delay in milliseconds { #expect(policy.failed(errno: errno) == .backOff(delay * 1_000_000)) }
    for _ in 0..<1000 { #expect(policy.failed(errno: errno) == .backOff(AcceptPolicy.longestDelay)) }
  }

  @Test func `An accepted connection begins the delays anew, a skipped one does not`() {
    var policy = AcceptPolicy()
    for _ in 0..<5 { _ = policy.failed(errno: Errno.processDescriptors) }
    #expect(policy.failed(errno: Errno.connectionAborted) == .skip)
    #expect(policy.failed(errno: Errno.processDescriptors) == .backOff(320_000_000))
    policy.accepted()
    #expect(policy.failed(errno: Errno.processDescriptors) == .backOff(10_000_000))
  }

  @Test(arguments: [Errno.badDescriptor, Errno.invalidArgument, Errno.notSocket])
  func `Accepting fails if the descriptor is no longer a listener`(errno: Int32) {
    var policy = AcceptPolicy()
    #expect(policy.failed(errno: errno) == .fail)
  }

  @Test func `An error that repeats at every accept does not make the listener spin`() {
    var policy = AcceptPolicy()
    let verdicts = (0..<1000).map { _ in policy.failed(errno: Errno.notPermitted) }
    #expect(!verdicts.contains(.skip))
  }

  @Test func `Each iteration has its own budget of accepts`() {
    var policy = AcceptPolicy()
    for iteration in [0, 1, 7, Int.max, Int.min] {
      let taken = (0..<AcceptPolicy.budget + 3).map { _ in policy.takeBudget(of: iteration) }
      #expect(taken.filter(\.self).count == AcceptPolicy.budget && taken.suffix(3) == [false, false, false])
    }
  }

  @Test func `After a connection that used the reserve, the policy asks for room until the backlog is empty`() {
    var policy = AcceptPolicy()
    #expect(!policy.asksForRoom)
    policy.reserveWasTouched()
    for milliseconds: Int64 in [10, 20, 40] {
      #expect(policy.asksForRoom)
      #expect(policy.hasNoRoom() == milliseconds * 1_000_000)
    }
    policy.accepted()
    #expect(policy.asksForRoom)
    #expect(policy.hasNoRoom() == AcceptPolicy.firstDelay)
    policy.backlogIsEmpty()
    #expect(!policy.asksForRoom)
  }
}
