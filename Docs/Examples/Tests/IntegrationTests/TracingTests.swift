import ActorSockets
import ActorSocketsTracing
import ExampleSupport
import InMemoryTracing
import Testing
import Tracing

@Suite struct TracingTests {
  private func span(of id: UInt64, _ tracer: InMemoryTracer) throws -> FinishedInMemorySpan {
    let spans = tracer.finishedSpans.filter { $0.attributes.get("connection.id") == .int64(Int64(id)) }
    #expect(spans.count == 1)
    return try #require(spans.first)
  }

  @Test func `A connection is a span with its addresses and bytes`() async throws {
    let tracer = InMemoryTracer()
    let conversation = try await talk(observedBy: TracingObserver(tracer: tracer, lagThreshold: .seconds(60)))
    #expect(tracer.finishedSpans.count == 2 && tracer.activeSpans.isEmpty)
    let client = try span(of: conversation.client, tracer)
    #expect(client.operationName == "connection" && client.kind == .internal && client.parentSpanID == nil)
    #expect(client.startInstant.nanosecondsSinceEpoch < client.endInstant.nanosecondsSinceEpoch)
    #expect(client.status == nil && client.errors.isEmpty)
    let expected: [String: SpanAttribute] = [
      "connection.role": "connected", "connection.label": "client", "network.transport": "tcp", "network.type": "ipv4",
      "network.peer.address": "127.0.0.1", "network.peer.port": .int64(Int64(conversation.port)),
      "network.local.address": "127.0.0.1", "connection.bytes.received": 4, "connection.bytes.sent": 6,
    ]
    for (name, value) in expected { #expect(client.attributes.get(name) == value, "\(name)") }
    for name in ["error.type", "connection.bytes.unsent", "tls.established"] {
      #expect(client.attributes.get(name) == nil, "\(name)")
    }
    let server = try span(of: conversation.server, tracer)
    #expect(server.attributes.get("connection.role") == "accepted")
    #expect(server.attributes.get("network.local.port") == .int64(Int64(conversation.port)))
    #expect(server.traceID != client.traceID)
    #expect(tracer.performedContextInjections.isEmpty && tracer.performedContextExtractions.isEmpty)
  }

  @Test func `Errors are recorded in the spans of their connections`() async throws {
    let tracer = InMemoryTracer()
    let observer = TracingObserver(tracer: tracer, lagThreshold: .seconds(60))
    let reset = try await beReset(observedBy: observer)
    let span = try span(of: reset.client, tracer)
    #expect(span.attributes.get("error.type") == "connectionReset" && span.status?.code == .error)
    tracer.clearFinishedSpans()
    try await beRefused(observedBy: observer, tries: 3)
    let refused = try #require(tracer.popFinishedSpans().first)
    #expect(refused.events.map(\.name) == ["retry", "retry"])
    #expect(refused.attributes.get("error.type") == "connectionRefused")
    #expect(refused.attributes.get("connection.role") == nil)
    #expect((refused.errors.first?.error as? SocketError)?.code == .connectionRefused)
    try await fail(with: Mishap(), observedBy: observer)
    let failed = tracer.popFinishedSpans().filter { $0.attributes.get("connection.role") == "accepted" }
    #expect(failed.first?.errors.first?.error is Mishap && failed.first?.status?.message == "a mishap")
    #expect(failed.first?.attributes.get("error.type") == "IntegrationTests.Mishap")
    #expect(tracer.activeSpans.isEmpty)
  }

  @Test func `Handshakes are recorded with what was negotiated`() async throws {
    let tracer = InMemoryTracer()
    let observer = TracingObserver(tracer: tracer, lagThreshold: .seconds(60))
    try await encrypt(observedBy: observer)
    let spans = tracer.popFinishedSpans()
    #expect(spans.count == 2)
    for span in spans {
      #expect(span.attributes.get("tls.protocol.name") == "tls")
      #expect(span.attributes.get("tls.protocol.version") == "1.3")
      #expect(span.attributes.get("tls.next_protocol") == "echo/1")
      #expect(span.attributes.get("tls.established") == true && span.attributes.get("tls.resumed") == false)
      #expect(span.attributes.get("tls.cipher") != nil)
      #expect(span.events.map(\.name) == ["TLS handshake done"])
    }
    try await encrypt(observedBy: observer, trusting: false)
    let failed = tracer.popFinishedSpans()
    #expect(failed.contains { $0.attributes.get("tls.established") == false && $0.status?.code == .error })
    #expect(tracer.activeSpans.isEmpty)
  }

  @Test func `The spans of a handler become children of the span of its connection`() async throws {
    try await within("the handler has answered") {
      let tracer = InMemoryTracer()
      let observer = TracingObserver(tracer: tracer, lagThreshold: .seconds(60))
      let reactor = Reactor()
      reactor.observer = observer
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
      let serving = Task {
        try await listener.serve { connection in
          try await observer.withContext(of: connection) {
            try await tracer.withSpan("request") { _ in try await connection.write(utf8: "answer\n") }
          }
        }
      }
      let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
      #expect(try await client.read(.line()) == "answer")
      await client.close()
      await listener.drain(within: .seconds(10))
      _ = try await serving.value
      let connection = try #require(
        tracer.finishedSpans.first { $0.attributes.get("connection.role") == "accepted" })
      let request = try #require(tracer.finishedSpans.first { $0.operationName == "request" })
      #expect(request.parentSpanID == connection.spanID && request.traceID == connection.traceID)
      #expect(observer.context(of: client.id) == nil)
    }
  }

  @Test func `Lag is a span that ends now, and the tracer is that of the task`() throws {
    let tracer = InMemoryTracer()
    let observer = withTracer(tracer) { TracingObserver() }
    observer.lagged(.milliseconds(1500))
    observer.lagged(.seconds(Int.max))
    let spans = tracer.finishedSpans
    #expect(spans.map(\.operationName) == ["reactor lag", "reactor lag"])
    let lags = spans.map { $0.endInstant.nanosecondsSinceEpoch - $0.startInstant.nanosecondsSinceEpoch }
    #expect(lags.first == 1_500_000_000 && lags.last ?? 0 > 1_500_000_000)
  }
}
