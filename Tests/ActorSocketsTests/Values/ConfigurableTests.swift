import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct ConfigurableTests {
  private struct Missing: Error {}

  @Test func `The settings that a closure does not change keep their defaults`() {
    let stream = ServeOptions.with { $0.limits.connectionsPerPeer = 3 }
    #expect(stream.limits.connectionsPerPeer == 3 && stream.limits.connections == ServeLimits().connections)
    #expect(stream.reactors == 1 && stream.stopSignals.isEmpty && stream.onFailure == nil)
    let datagram = UDPEndpoint.ServeOptions.with {
      $0.handlers = 4
      $0.overflow = .dropOldest
    }
    #expect(datagram.handlers == 4 && datagram.overflow == .dropOldest && datagram.queueBudget == 1 << 20)
    #expect(datagram.taskExecutor == nil && datagram.stopSignals.isEmpty && datagram.onFailure == nil)
  }

  @Test func `Options without arguments are those with the default of each argument`() {
    let (stream, same) = (ServeOptions(), ServeOptions(stopOn: []))
    #expect("\(stream.drain)" == "\(same.drain)" && stream.limits.connections == same.limits.connections)
    let (datagram, equal) = (UDPEndpoint.ServeOptions(), UDPEndpoint.ServeOptions(stopOn: []))
    #expect("\(datagram.drain)" == "\(equal.drain)" && datagram.handlers == equal.handlers)
  }

  @Test func `An error of the closure is thrown`() {
    #expect(throws: Missing.self) {
      try ServeOptions.with { (_: inout ServeOptions) throws(Missing) in throw Missing() }
    }
  }

  @Test func `A server takes changed options`() async throws {
    let listener = try TCPListener.bind(to: .port(0))
    await expectError(.invalidArgument) { try await listener.serve(.with { $0.reactors = 0 }) { _ in } }
    let endpoint = try UDPEndpoint.bind(to: .port(0))
    await expectError(.invalidArgument) { try await endpoint.serve(.with { $0.handlers = 0 }) { _ in } }
  }
}
