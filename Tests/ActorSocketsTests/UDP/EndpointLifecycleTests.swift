import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct EndpointLifecycleTests {
  private static let broken = SocketError(.system, operation: "receive")

  @Test func `An open endpoint admits operations`() {
    let lifecycle = EndpointLifecycle()
    #expect(lifecycle.refusal == nil && lifecycle.failure == nil && !lifecycle.isClosing && !lifecycle.isClosed)
  }

  @Test func `Closing begins once, refuses operations, and is no failure yet`() {
    var lifecycle = EndpointLifecycle()
    let begins = [lifecycle.closeRequested(), lifecycle.closeRequested()]
    #expect(begins == [true, false])
    #expect(lifecycle.refusal?.code == .closed && lifecycle.failure == nil)
    #expect(lifecycle.isClosing && !lifecycle.isClosed)
  }

  @Test(arguments: [true, false])
  func `The first cause of the end stays`(isClosing: Bool) {
    var lifecycle = EndpointLifecycle()
    if isClosing { _ = lifecycle.closeRequested() }
    let ends = [lifecycle.end(Self.broken), lifecycle.end(EndpointLifecycle.closed)]
    #expect(ends == [true, false])
    #expect(lifecycle.failure?.code == .system && lifecycle.refusal?.code == .system)
    #expect(lifecycle.isClosed && !lifecycle.isClosing)
    let closesAgain = lifecycle.closeRequested()
    #expect(!closesAgain && lifecycle.isClosed)
  }

  @Test func `Handles are counted`() {
    var lifecycle = EndpointLifecycle()
    lifecycle.handleCreated()
    lifecycle.handleCreated()
    lifecycle.handleReleased()
    #expect(lifecycle.handles == 1)
  }
}
