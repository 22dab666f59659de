import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// How a server of datagrams stops that gives a notice before its drain.
@Suite(.conformance, .endsInTime) struct DatagramNoticeTests {
  private struct Scene {
    let time = ManualTime()
    let server: UDPEndpoint
    let serving: Task<UDPEndpoint.ServeReport, any Error>
    let cancelled = Notes<Bool>()

    /// One handler runs, and ends only when it is cancelled, or, if `answers`, at once.
    init(_ transport: DatagramTransport, answers: Bool = false, handlers: Int = 2) async throws {
      let (client, server) = (try transport.bind(), try transport.bind(reactor: time.reactor))
      self.server = server
      let started = Notes<UInt8>()
      let options = UDPEndpoint.ServeOptions(handlers: handlers, drain: .within(.seconds(100), notice: .seconds(10)))
      serving = DatagramHandlerKind.pool.serve(server, options) { [cancelled] _, datagram in
        started.add(datagram.bytes[0])
        if answers { return }
        await AsyncStream<Void>.makeStream().stream.first { true }
        cancelled.add(Task.isCancelled)
      }
      try await client.send([1], to: transport.address(of: server))
      try await eventually("a handler runs") { started.all.count == 1 }
      serving.cancel()
      try await eventually("the notice has begun") { await server.serving.server.isNoticed }
    }
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `A drain that is requested during the notice does not put off the end`(
    transport: DatagramTransport
  ) async throws {
    let scene = try await Scene(transport)
    await scene.server.drain(within: .seconds(1_000))
    await scene.time.advance(by: .seconds(110) - .nanoseconds(1))
    #expect(scene.cancelled.all.isEmpty)
    await scene.time.advance(by: .nanoseconds(1))
    #expect(try await scene.serving.value.aborted == 1)
    #expect(scene.cancelled.all == [true])
  }

  @Test(.inRealTime, arguments: [false, true], [1, 2])
  func `Closing the endpoint during a notice begins the drain`(sendsPending: Bool, handlers: Int) async throws {
    func close(_ endpoint: UDPEndpoint) async {
      if sendsPending { await endpoint.closeAfterPendingSends() } else { await endpoint.close() }
    }
    let idle = try await Scene(.ipv4, answers: true, handlers: handlers)
    await close(idle.server)
    #expect(try await idle.serving.value.finished == 1)
    let busy = try await Scene(.ipv4, handlers: handlers)
    await close(busy.server)
    await busy.time.advance(by: .seconds(100) - .nanoseconds(1))
    #expect(busy.cancelled.all.isEmpty)
    await busy.time.advance(by: .nanoseconds(1))
    #expect(try await busy.serving.value.aborted == 1)
  }

  @Test(.inRealTime, arguments: [1, 2])
  func `A reactor that shuts down during a notice ends the server`(handlers: Int) async throws {
    let scene = try await Scene(.ipv4, handlers: handlers)
    scene.time.reactor.shutdown()
    await expectError(.reactorShutDown) { _ = try await scene.serving.value }
    #expect(scene.cancelled.all == [true])
  }
}
