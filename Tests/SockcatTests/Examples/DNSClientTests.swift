import ActorSockets
import Foundation
import TestSupport
import Testing

struct DNSClientTests {
  /// Starts dnsmasq on a free port, and waits until it answers.
  ///
  /// On an address of its own: many ports of 127.0.0.1 are in use for a minute after tests with thousands of connections.
  private func startServer() async throws -> (Program, Endpoint) {
    let address = "127.53.0.1"
    var complaint = ""
    for _ in 0..<10 {
      // It cannot choose a port itself: somebody may take this one in between.
      let probe = try UDPEndpoint.bind(to: .host(address, port: 0))
      let port = try #require(probe.localAddress?.port)
      await probe.close()
      let server = try await Program(
        .dnsmasq,
        [
          "--no-daemon", "--conf-file=/dev/null", "--pid-file=", "--user=\(NSUserName())", "--port=\(port)",
          "--listen-address=\(address)", "--bind-interfaces", "--no-resolv", "--no-hosts", "--local=/example/",
          "--address=/a.example/192.0.2.7", "--host-record=b.example,192.0.2.8", "--cname=alias.example,b.example",
        ])
      if await server.errors.wait(until: { $0.contains("started, version") }) {
        return (server, .host(address, port: port))
      }
      complaint = await server.errors.text
    }
    throw Overdue(description: "dnsmasq does not start: \(complaint)")
  }

  @Test(.needs(.dnsmasq))
  func `dnsmasq is asked, and its answers are understood`() async throws {
    try await within("the answers come") {
      let (program, server) = try await startServer()
      #expect(try await lookUp("a.example", at: server) == [IPv4Address(192, 0, 2, 7)])
      #expect(try await lookUp("Deep.Below.A.Example", at: server) == [IPv4Address(192, 0, 2, 7)])
      // Its answer names b.example, and the address of that.
      #expect(try await lookUp("alias.example", at: server) == [IPv4Address(192, 0, 2, 8)])
      #expect(try await lookUp("nobody.example", at: server) == [])
      // It has no other server to ask about this one.
      await #expect(throws: DNSError.refused(5)) { try await lookUp("elsewhere.test", at: server) }
      await program.kill(SIGTERM)
    }
  }

  @Test
  func `Where no server is, the look-up says so`() async throws {
    try await within("it says so") {
      let nobody = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let endpoint = Endpoint.address(nobody.localAddresses[0])
      await nobody.close()
      let error = await #expect(throws: SocketError.self) { try await lookUp("a.example", at: endpoint) }
      #expect(error?.code == .connectionRefused)
    }
  }

  @Test
  func `A lost question is asked again, and answers to others are ignored`() async throws {
    try await within("the answer comes") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let answering = Task {
        var count = 0
        for try await question in server.datagrams {
          count += 1
          if count == 1 { continue }
          var other = answer(to: question.bytes)
          other[0] ^= 1
          try await server.send(question.reply(other))
          try await server.send(question.reply([1, 2, 3]))
          try await server.send(question.reply(answer(to: question.bytes)))
        }
        return count
      }
      let addresses = try await lookUp(
        "a.example", at: .address(server.localAddresses[0]), patience: .milliseconds(300 * patience))
      #expect(addresses == [IPv4Address(192, 0, 2, 7)])
      await server.close()
      #expect(try await answering.value >= 2)
    }
  }

  @Test
  func `A server that says nothing is given up`() async throws {
    try await within("it is given up") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      await #expect(throws: DNSError.noAnswer) {
        try await lookUp("a.example", at: .address(server.localAddresses[0]), patience: .milliseconds(5))
      }
      await server.close()
    }
  }

  @Test(arguments: [
    "", ".", "a..b", ".a", "a.", String(repeating: "a", count: 64), String(repeating: "a.", count: 127) + "a",
  ])
  func `An invalid name is not asked for`(name: String) {
    #expect(throws: DNSError.badName) { try DNSQuestion(name: name, id: 1) }
  }

  /// A question's bytes with an answer behind them, whose owner is a pointer to the question's name.
  private func answer(to question: [UInt8], owner: [UInt8] = [0xC0, 12]) -> [UInt8] {
    var message = question
    message[2] = 0x81
    message[7] = 1
    return message + owner + [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]
  }

  @Test
  func `Pointers are followed backwards only`() throws {
    let question = try DNSQuestion(name: "a.example", id: 7)
    let end = UInt8(question.bytes.count)
    let owners: [([UInt8], isRight: Bool)] = [
      ([0xC0, 12], true), ([1, 65, 0xC0, 14], true), ([1, 65, 7] + Array("EXAMPLE".utf8) + [0], true),
      // To itself, forward, to each other, to the end, to a name that is another one.
      ([0xC0, end], false), ([0xC0, end + 2], false), ([1, 65, 0xC0, end], false), ([0xFF, 0xFF], false),
      ([0xC0, 14], false), ([0x80, 1], false), ([63, 65], false),
    ]
    for (owner, isRight) in owners {
      let answer = try #require(DNSAnswer(answer(to: question.bytes, owner: owner), to: question))
      #expect(try answer.addresses() == (isRight ? [IPv4Address(192, 0, 2, 7)] : []), "\(owner)")
    }
  }

  @Test
  func `An answer may end anywhere`() throws {
    let question = try DNSQuestion(name: "a.example", id: 7)
    let whole = answer(to: question.bytes)
    for length in 0..<whole.count {
      let answer = DNSAnswer(Array(whole.prefix(length)), to: question)
      #expect((answer != nil) == (length >= question.bytes.count))
      #expect(try answer?.addresses() ?? [] == [])
    }
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `Answers that make no sense are read to an end`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let question = try DNSQuestion(name: "a.example", id: 7)
    for _ in 0..<2000 {
      var message = answer(to: question.bytes) + answer(to: question.bytes, owner: [1, 65, 0xC0, 14]).suffix(18)
      message[7] = .random(in: 0...5, using: &random)
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        let index = Int.random(in: question.bytes.count..<message.count, using: &random)
        message[index] = [.random(in: .min ... .max, using: &random), 0xC0, 63, 0].randomElement(using: &random) ?? 0
      }
      let addresses = try #require(DNSAnswer(message, to: question)).addresses()
      #expect(addresses.count <= 5)
    }
  }
}
