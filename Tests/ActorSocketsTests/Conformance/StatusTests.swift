import TestSupport
import Testing

@testable import ActorSockets

@Suite(.conformance, .endsInTime) struct StatusTests {
  @Test(arguments: Transport.allCases)
  func `The status counts what waits`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let client = pair.client
    var status = await client.status
    #expect(status.state == .open)
    #expect(status.queuedReads == 0 && status.queuedWrites == 0 && status.unsentBytes == 0)
    #expect(status.bufferedBytes == 0 && status.readProgress == nil && status.writeProgress == nil)
    let reading = Task.immediate { try await client.read(exactly: 10) }
    let line = client.enqueueRead(.line())
    let writing = Task.immediate { try await client.write(pattern(tooMuch)) }
    let behind = Task.immediate { try await client.write([1, 2, 3]) }
    try await pair.server.write([1, 2, 3, 4])
    try await client.hasBuffered(4)
    status = await client.status
    #expect(status.queuedReads == 2 && status.queuedWrites == 2 && status.bufferedBytes == 4)
    #expect(status.readProgress == StreamStatus.Progress(done: 4, total: 10))
    let progress = try #require(status.writeProgress)
    #expect(progress.total == tooMuch && progress.done + status.unsentBytes == tooMuch + 3)
    #expect(status.description.contains("2 reads at 4/10"))
    #expect(status.description.contains("2 writes"))
    let metrics = await client.metrics
    #expect(metrics.bytesReceived == 4 && metrics.bytesSent >= progress.done)
    #expect(try await pair.server.read(exactly: tooMuch + 3) == pattern(tooMuch) + [1, 2, 3])
    try await pair.server.write(utf8: "567890line\n")
    #expect(try await reading.value.count == 10)
    #expect(try await line.value == "line")
    try await writing.value
    try await behind.value
    #expect(await moved(client) == metricsOf(sent: tooMuch + 3, received: 15))
    #expect(await moved(pair.server) == metricsOf(sent: 15, received: tooMuch + 3))
  }

  private func moved(_ stream: any ByteStream) async -> StreamMetrics {
    var metrics = await stream.metrics
    metrics.tcp = nil
    return metrics
  }

  private func metricsOf(sent: Int, received: Int) -> StreamMetrics {
    var metrics = StreamMetrics()
    metrics.bytesSent = sent
    metrics.bytesReceived = received
    return metrics
  }

  @Test(arguments: Transport.allCases)
  func `A description is one line`(transport: Transport) async throws {
    let pair = try await transport.pair()
    for end in [pair.client, pair.server] {
      #expect("\(end)".contains("Connection "))
      #expect(!"\(end)".contains("\n"))
    }
  }
}
