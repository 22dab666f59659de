import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import CodableRPC

/// The server, with clients that keep to the protocol, and with clients that do not.
@Suite struct RPCServerTests {
  @Test(.needs(.python)) func `A client in Python gets answers in the order in which calls end`() async throws {
    try await within("the conversation ends") {
      let server = try RunningServer { $0.calls = 8 }
      let port = try #require(server.address.port)
      #expect(try await Program.run(.python, [Tool.script("client.py"), "\(port)"]) == "done\n")
      #expect(await server.gated.cancelled == 2)
      let report = try await server.stop()
      #expect(report.finished == 1 && report.failedByPeer == 0)
    }
  }

  @Test(
    arguments: [
      "\u{FF}\u{FF}", "", "{", "[]", "null", #"{"head":{}}"#, #"{"head":{"call":{"id":1}}}"#,
      #"{"head":{"call":{"id":-1,"method":"echo","milliseconds":1}},"content":1}"#,
      #"{"head":{"call":{"id":18446744073709551616,"method":"echo","milliseconds":1}},"content":1}"#,
      #"{"head":{"answer":{"id":1}},"content":1}"#, #"{"head":{"goodbye":{"last":1}},"content":1}"#,
      #"{"head":{"hello":{"version":1,"calls":1,"length":1}},"content":1}"#,
      String(repeating: "[", count: 600),
    ])
  func `A message that is not allowed ends the connection, and no other one`(json: String) async throws {
    try await within("the connection ends") {
      let server = try RunningServer()
      let other = server.client()
      #expect(try await other.call(.echo, "a") == "a")
      let peer = try await RawPeer.client(of: server.address)
      try await peer.send(json)
      try await peer.waitForEnd()
      #expect(try await other.call(.echo, "b") == "b")
      await other.close()
      let report = try await server.stop()
      #expect(report.failedByPeer == 1 && report.finished == 1 && report.failed == 0)
    }
  }

  @Test(
    arguments: [
      // The length says 4 GiB, or one byte more than is allowed.
      [0xFF, 0xFF, 0xFF, 0xFF, 0x7B], [0, 0x10, 0, 1], [0, 0, 0, 9, 0x7B], [0, 0],
    ] as [[UInt8]])
  func `A length that is too large, or a message that stays incomplete, ends the connection`(bytes: [UInt8])
    async throws
  {
    try await within("the connection ends") {
      let server = try RunningServer { $0.message = .milliseconds(100) }
      for saysHello in [true, false] {
        let peer = try await RawPeer.client(of: server.address, version: saysHello ? 1 : nil)
        try await peer.connection.write(bytes)
        try await peer.waitForEnd()
      }
      #expect(try await server.stop().failedByPeer == 2)
    }
  }

  @Test func `An id that was used, or is smaller, ends the connection`() async throws {
    try await within("the connections end") {
      let server = try RunningServer()
      for id in [7, 6, 0] {
        let peer = try await RawPeer.client(of: server.address)
        try await peer.sendCall(7, "gate", "a")
        await server.gated.wait(running: 1)
        try await peer.sendCall(id, "echo", "b")
        try await peer.waitForEnd()
        // The call that ran is cancelled.
        await server.gated.wait(running: 0)
      }
      #expect(await server.gated.cancelled == 3)
      #expect(try await server.stop().failedByPeer == 3)
    }
  }

  @Test func `Too many calls at a time are refused, and the others go on`() async throws {
    try await within("the answers are there") {
      let server = try RunningServer { $0.calls = 2 }
      let peer = try await RawPeer.client(of: server.address)
      for id in 1...3 { try await peer.sendCall(id, "gate", "\(id)") }
      let refused = try #require(try await peer.receive())
      #expect(refused.contains(#""id":3"#) && refused.contains(#""code":"busy""#), "\(refused)")
      await server.gated.open()
      let answers = [try await peer.receive(), try await peer.receive()].compactMap { $0 }.sorted()
      #expect(answers == [1, 2].map { #"{"head":{"answer":{"id":\#($0)}},"content":"\#($0)"}"# })
      await peer.connection.close()
      #expect(try await server.stop().finished == 1)
    }
  }

  @Test func `A client that does not say hello in time, or speaks another version, is left`() async throws {
    try await within("the connections end") {
      let server = try RunningServer { $0.hello = .milliseconds(100) }
      try await RawPeer.client(of: server.address, version: nil).waitForEnd()
      try await RawPeer.client(of: server.address, version: 2).waitForEnd()
      let report = try await server.stop()
      #expect(report.failedByPeer == 1 && report.finished == 1)
    }
  }

  @Test func `A client that does not read loses its connection`() async throws {
    try await within("the handler ends") {
      let server = try RunningServer { $0.write = .milliseconds(200) }
      let other = server.client()
      let peer = try await RawPeer.client(of: server.address, receiveBuffer: 65_536)
      // Together, the answers do not fit into the buffers of the kernel.
      let text = String(repeating: "x", count: 1_000_000)
      for id in 1...20 { try await peer.sendCall(id, "echo", text) }
      #expect(try await other.call(.echo, "a") == "a")
      await other.close()
      var failures = server.failures.makeAsyncIterator()
      let error = await failures.next()
      #expect((error as? SocketError)?.code == .timedOut, "\(String(describing: error))")
      try await peer.waitForEnd()
      let report = try await server.stop()
      #expect(report.failedByPeer == 1 && report.finished == 1)
    }
  }

  @Test func `A client that ends its stream has its calls cancelled`() async throws {
    try await within("the call is cancelled") {
      let server = try RunningServer()
      let peer = try await RawPeer.client(of: server.address)
      try await peer.sendCall(1, "gate", "a")
      await server.gated.wait(running: 1)
      try await peer.connection.finishWriting()
      await server.gated.wait(cancelled: 1)
      try await peer.waitForEnd()
      #expect(try await server.stop().finished == 1)
    }
  }

  @Test(.needs(.codableRPC)) func `The program serves and calls, and SIGTERM stops it`() async throws {
    try await within("the programs end") {
      let program = try Program(.codableRPC, ["serve", "127.0.0.1:0"])
      try await program.waitForOutput("\n")
      let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
      let place = String(line.1)
      #expect(try await Program.run(.codableRPC, ["call", place, "sum", "1", "2", "3.5"]) == "6.5\n")
      #expect(
        try await Program.run(.codableRPC, ["call", place, "primes", "100"]) == "25 primes, the largest is 97\n")
      let refused = try Program(.codableRPC, ["call", place, "primes", "-1"])
      #expect(try await refused.exitStatus() == 1)
      #expect(await refused.errors.whole == "invalidArgument: the limit must be in 0...100000000\n")
      let idle = try await RawPeer.client(of: try #require(SocketAddress(place)))
      await program.kill(SIGTERM)
      #expect(try await idle.receive() == #"{"head":{"goodbye":{"last":0}},"content":null}"#)
      #expect(try await idle.receive() == nil)
      #expect(try await program.exitStatus() == 0)
      #expect(await program.output.whole.contains("stopped after 4 connections, 0 of them aborted"))
    }
  }
}
