import ActorSockets
import TestSupport
import Testing

@Suite(.endsInTime) struct DatagramServingTests {
  @Test func `A slow answer holds up no other request, and a drain lets it be sent`() async throws {
    let server = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
    let (isAsked, mayAnswer) = (Gate(), Gate())
    let serving = Task {
      try await answerRequests(on: server) { request in
        if request == [0] {
          isAsked.open()
          await mayAnswer.wait()
        }
        return request + [9]
      }
    }
    let client = try await UDPEndpoint.connect(to: .address(server.localAddresses[0]))
    try await client.send([0])
    await isAsked.wait()
    try await client.send([1])
    #expect(try await client.receive(timeout: .seconds(20)).bytes == [1, 9])
    serving.cancel()
    mayAnswer.open()
    #expect(try await client.receive(timeout: .seconds(20)).bytes == [0, 9])
    #expect(try await serving.value.finished == 2)
  }
}
