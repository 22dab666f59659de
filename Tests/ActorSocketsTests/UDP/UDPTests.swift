import ActorSockets
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct UDPTests {
  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams go there and back`(transport: DatagramTransport) async throws {
    let (client, server, target) = try transport.pair()
    for text in ["", "a", String(repeating: "b", count: 9000)] {
      try await client.send(Array(text.utf8), to: target)
      let question = try await server.receive()
      #expect(question.bytes == Array(text.utf8) && !question.isTruncated)
      try await server.send(question.reply(Array("answer".utf8)))
      let answer = try await client.receive()
      #expect(answer.bytes == Array("answer".utf8))
      #expect(answer.remoteAddress == target)
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams of one flow keep their order`(transport: DatagramTransport) async throws {
    let (client, server, target) = try transport.pair()
    let receiving = Task {
      var seen: [Int] = []
      for try await datagram in server.datagrams {
        seen.append(Int(String(decoding: datagram.bytes, as: UTF8.self)) ?? -1)
        if seen.count == 1000 { break }
      }
      return seen
    }
    for number in 0..<1000 {
      try await client.send(Array("\(number)".utf8), to: target)
      // The datagrams on their way stay fewer than the kernel keeps.
      if number % 8 == 7 {
        try await eventually("they are received") { await server.metrics.datagramsReceived > number }
      }
    }
    #expect(try await receiving.value == Array(0..<1000))
  }
}
