import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import DNSForwarder

@Suite struct DNSForwarderTests {
  @Test(.needs(.dig), .needs(.dnsmasq)) func `dig gets the answers of dnsmasq`() async throws {
    try await within("dig has its answers") {
      let server = try await NameServer()
      let forwarder = try await RunningForwarder(upstream: [server.endpoint])
      #expect(try await forwarder.dig("+short", "a.example") == "192.0.2.7\n")
      #expect(try await forwarder.dig("+short", "short.example", "AAAA") == "2001:db8::8\n")
      #expect(try await forwarder.dig("+short", "alias.example") == "b.example.\n192.0.2.9\n")
      #expect(try await forwarder.dig("+short", "+noedns", "b.example") == "192.0.2.9\n")
      #expect(try await forwarder.dig("+short", "+tcp", "b.example") == "192.0.2.9\n")
      #expect(try await forwarder.dig("nothing.example").contains("status: NXDOMAIN"))
      #expect(try await forwarder.dig("a.example", "MX").contains("status: NOERROR"))
      // dnsmasq has no server to ask about this name.
      #expect(try await forwarder.dig("elsewhere.test").contains("status: REFUSED"))
      try await forwarder.stop()
      await server.program.stop()
    }
  }

  @Test(.needs(.dig), .needs(.dnsmasq)) func `An answer is sent again from the cache, with the name as it is asked`()
    async throws
  {
    try await within("dig has its answers") {
      let server = try await NameServer()
      let forwarder = try await RunningForwarder(upstream: [server.endpoint], patience: .milliseconds(50))
      #expect(try await forwarder.dig("+noall", "+answer", "a.example").hasPrefix("a.example."))
      for _ in 0..<3 {
        let answer = try await forwarder.dig("+noall", "+answer", "A.eXample")
        let record = try #require(
          answer.firstMatch(of: /^a\.example\.\s+(\d+)\s+IN\s+A\s+192\.0\.2\.7/.ignoresCase()), "\(answer)")
        #expect(answer.hasPrefix("A.eXample."))
        #expect(1...300 ~= (try #require(Int(record.1))))
      }
      // Another kind of question has another answer.
      #expect(try await forwarder.dig("+short", "+dnssec", "a.example") == "192.0.2.7\n")
      #expect(await server.questions(for: "a.example") == 2)
      await server.program.stop()
      #expect(try await forwarder.dig("+short", "a.example") == "192.0.2.7\n")
      #expect(try await forwarder.dig("b.example").contains("status: SERVFAIL"))
      try await forwarder.stop()
    }
  }

  @Test(.needs(.dig), .needs(.dnsmasq)) func `An answer that is too long for datagrams takes TCP on both sides`()
    async throws
  {
    try await within("dig has its answers") {
      let server = try await NameServer()
      let forwarder = try await RunningForwarder(upstream: [server.endpoint])
      let wanted = NameServer.longText.map { "\"\($0)\"" }.joined(separator: " ") + "\n"
      // dig asks again over TCP, as the truncated answer tells it.
      #expect(try await forwarder.dig("+short", "long.example", "TXT") == wanted)
      let truncated = try await forwarder.dig("+ignore", "+noedns", "long.example", "TXT")
      #expect(truncated.contains("flags: qr tc rd ra;") && truncated.contains("ANSWER: 0"), "\(truncated)")
      try await forwarder.stop()
      await server.program.stop()
    }
  }

  @Test(.needs(.dig), .needs(.dnsmasq)) func `The next server is asked where one is down`() async throws {
    try await within("dig has its answer") {
      let server = try await NameServer()
      let probe = try UDPEndpoint.bind(to: .host("127.53.0.4", port: 0))
      let down = Endpoint.address(probe.localAddresses[0])
      await probe.close()
      let forwarder = try await RunningForwarder(upstream: [down, server.endpoint])
      #expect(try await forwarder.dig("+short", "a.example") == "192.0.2.7\n")
      try await forwarder.stop()
      await server.program.stop()
    }
  }

  @Test(.needs(.dig), .needs(.dnsmasq), .needs(.dnsForwarder))
  func `The program answers on one port, and SIGTERM stops it`() async throws {
    try await within("the program ends") {
      let server = try await NameServer()
      let program = try Program(.dnsForwarder, ["127.53.0.5:5399", "\(server.endpoint)"])
      try await program.waitForOutput("listening on 127.53.0.5:5399\n")
      for option in ["+notcp", "+tcp"] {
        let answer = try await Program.run(
          .dig, ["@127.53.0.5", "-p", "5399", "+short", "+tries=1", "+time=30", option, "a.example"])
        #expect(answer == "192.0.2.7\n")
      }
      await program.kill(SIGTERM)
      #expect(try await program.exitStatus() == 0)
      await server.program.stop()
    }
  }
}
