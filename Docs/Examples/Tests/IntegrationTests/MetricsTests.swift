import ActorSockets
import ActorSocketsMetrics
import CoreMetrics
import MetricsTestKit
import Testing

@Suite struct MetricsTests {
  @Test func `A conversation is counted on both sides`() async throws {
    let metrics = TestMetrics()
    _ = try await talk(observedBy: MetricsObserver(factory: metrics, lagThreshold: .seconds(60)))
    #expect(try metrics.expectCounter("sockets.connections.accepted").totalValue == 1)
    #expect(try metrics.expectCounter("sockets.connections.connected").totalValue == 1)
    #expect(try metrics.expectMeter("sockets.connections.open").values.max() == 2)
    #expect(try metrics.expectMeter("sockets.connections.open").lastValue == 0)
    #expect(try metrics.expectCounter("sockets.connections.closed", [("reason", "local")]).totalValue == 1)
    #expect(try metrics.expectCounter("sockets.connections.closed", [("reason", "remote")]).totalValue == 1)
    #expect(metrics.counterTotal(label: "sockets.connections.closed") == 2)
    #expect(try metrics.expectCounter("sockets.bytes.received").totalValue == 10)
    #expect(try metrics.expectCounter("sockets.bytes.sent").totalValue == 10)
    #expect(try metrics.expectCounter("sockets.bytes.unsent").totalValue == 0)
    let durations = try metrics.expectTimer("sockets.connections.duration").values
    #expect(durations.count == 2 && durations.allSatisfy { $0 > 0 && $0 < 60_000_000_000 })
    #expect(try metrics.expectTimer("sockets.reactor.lag").values.isEmpty)
  }

  @Test func `Each direction has its counter`() async throws {
    let witness = Witness()
    let report = try await talk(observedBy: witness).report
    let metrics = TestMetrics()
    let observer = MetricsObserver(factory: metrics, lagThreshold: .seconds(60))
    observer.closed(try #require(witness.lastConnection), report)
    #expect(try metrics.expectCounter("sockets.bytes.received").totalValue == 4)
    #expect(try metrics.expectCounter("sockets.bytes.sent").totalValue == 6)
  }

  @Test func `Failures are counted by their cause`() async throws {
    let metrics = TestMetrics()
    let observer = MetricsObserver(factory: metrics, lagThreshold: .seconds(60))
    _ = try await beReset(observedBy: observer)
    #expect(try metrics.expectCounter("sockets.connections.closed", [("reason", "reset")]).totalValue == 1)
    try await beRefused(observedBy: observer, tries: 3)
    try await beRefused(observedBy: observer)
    let refused = [("error.type", "connectionRefused")]
    #expect(try metrics.expectCounter("sockets.connections.failed", refused).totalValue == 2)
    #expect(try metrics.expectCounter("sockets.connections.retried").totalValue == 2)
    try await fail(with: Mishap(), observedBy: observer)
    #expect(try metrics.expectCounter("sockets.handlers.failed").totalValue == 1)
    #expect(try metrics.expectMeter("sockets.connections.open").lastValue == 0)
  }

  @Test func `Handshakes are counted`() async throws {
    let metrics = TestMetrics()
    let observer = MetricsObserver(factory: metrics, lagThreshold: .seconds(60))
    try await encrypt(observedBy: observer)
    #expect(try metrics.expectCounter("sockets.tls.handshakes", [("resumed", "false")]).totalValue == 2)
    #expect(try metrics.expectCounter("sockets.tls.handshakes", [("resumed", "true")]).totalValue == 0)
    try await encrypt(2, observedBy: observer)
    #expect(try metrics.expectCounter("sockets.tls.handshakes", [("resumed", "false")]).totalValue == 4)
    #expect(try metrics.expectCounter("sockets.tls.handshakes", [("resumed", "true")]).totalValue == 2)
    #expect(try metrics.expectCounter("sockets.tls.failures").totalValue == 0)
    try await encrypt(observedBy: observer, trusting: false)
    #expect(try metrics.expectCounter("sockets.tls.failures").totalValue >= 1)
  }

  @Test func `Drops and lag are recorded, under another prefix and with the factory of the task`() async throws {
    let witness = Witness()
    _ = try await talk(observedBy: witness)
    let metrics = TestMetrics()
    let observer = withMetricsFactory(metrics) {
      MetricsObserver(prefix: "server", lagThreshold: .milliseconds(7))
    }
    #expect(observer.lagThreshold == .milliseconds(7))
    observer.datagramsDropped(3, at: try #require(witness.lastConnection))
    observer.lagged(.milliseconds(1500))
    observer.lagged(.seconds(Int.max))
    #expect(try metrics.expectCounter("server.datagrams.dropped").totalValue == 3)
    #expect(try metrics.expectTimer("server.reactor.lag").values == [1_500_000_000, .max])
  }
}
