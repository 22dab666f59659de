import ActorSockets
import TestSupport
import Testing

/// The example of many datagrams in the article about datagrams.
struct BulkTransferTests {
  @Test func `All parts arrive, whole`() async throws {
    try await within("they arrive", seconds: 60) {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let part = (0..<1200).map { UInt8(truncatingIfNeeded: $0) }
      let serving = Task { try await upload(part, on: server) }
      let received = try await download(1000, from: server.localAddresses[0])
      #expect(received.map(\.bytes) == Array(repeating: part, count: 1000))
      await server.close()
      try await serving.value
    }
  }
}
