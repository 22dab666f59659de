import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import WebSocketChat

@Suite struct WebSocketChatTests {
  @Test(.needs(.websockets)) func `Clients of the library websockets have a conversation`() async throws {
    try await within("the conversation ends") {
      let chat = try RunningChat()
      #expect(try await Program.run(.websockets, [Tool.script("conversation.py"), chat.url]) == "done\n")
      let report = try await chat.stop()
      #expect(report.finished == 5 && report.failed == 0 && report.failedByPeer == 0)
    }
  }

  @Test(.needs(.websockets)) func `A server that stops says goodbye to its members`() async throws {
    try await within("the member ends") {
      let program = try Program(.webSocketChat, ["127.0.0.1:0"])
      try await program.waitForOutput("\n")
      let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
      let member = try Program(.websockets, [Tool.script("listener.py"), "ws://\(line.1)/chat/Ada"])
      try await member.waitForOutput("* Ada is here\n")
      await program.kill(SIGTERM)
      #expect(try await member.exitStatus() == 0)
      #expect(await member.output.whole == "* Ada is here\nclosed with 1001\n")
      #expect(try await program.exitStatus() == 0)
    }
  }

  @Test(.needs(.curl)) func `A browser gets the page`() async throws {
    try await within("curl has its page") {
      let chat = try RunningChat()
      let page = try await Program.run(.curl, ["--silent", "--max-time", "20", "http://\(chat.address)/"])
      #expect(page.hasPrefix("<!DOCTYPE html>") && page.hasSuffix("</html>\n"))
      let status = ["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}"]
      #expect(try await Program.run(.curl, status + ["http://\(chat.address)/nothing"]) == "404")
      let upgrade = [
        "-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      ]
      let old = upgrade + ["-H", "Sec-WebSocket-Version: 8"]
      #expect(try await Program.run(.curl, status + old + ["http://\(chat.address)/chat/Ada"]) == "426")
      #expect(try await chat.stop().finished == 3)
    }
  }

  @Test(
    arguments: [
      ([0x81, 0x01, 0x61], 1002), ([0xC1, 0x80, 0, 0, 0, 0], 1002), ([0x83, 0x80, 0, 0, 0, 0], 1002),
      ([0x09, 0x80, 0, 0, 0, 0], 1002),
      ([0x80, 0x80, 0, 0, 0, 0], 1002), ([0x88, 0x81, 0, 0, 0, 0, 3], 1002), ([0x88, 0x82, 0, 0, 0, 0, 3, 0xED], 1002),
      ([0x81, 0xFE, 0, 125, 0, 0, 0, 0], 1002), ([0x81, 0x81, 0, 0, 0, 0, 0xFF], 1007),
      ([0x81, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009),
      ([0x81, 0xFE, 0x7F, 0xFF, 0, 0, 0, 0], 1009), ([0x82, 0x80, 0, 0, 0, 0], 1003),
      ([0x88, 0x82, 0, 0, 0, 0, 3, 0xE8], 1000),
      ([0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002),
    ] as [([UInt8], UInt16)])
  func `A client is told why its connection ends`(bytes: [UInt8], code: UInt16) async throws {
    try await within("the connection ends") {
      let chat = try RunningChat()
      let member = try await chat.member("Eve")
      try await member.write(bytes)
      #expect(try await member.readBeyondText() == [0x88, 2, UInt8(code >> 8), UInt8(code & 255)])
      #expect(try await member.read() == nil)
      await member.close()
      #expect(try await chat.stop().finished == 1)
    }
  }

  @Test func `A client that answers pings stays, and one that does not is cut off`() async throws {
    try await within("the connection ends") {
      let chat = try RunningChat(silence: .milliseconds(200 * patience))
      let member = try await chat.member("Ada")
      for _ in 0..<3 {
        #expect(try await member.readBeyondText() == [0x89, 0])
        try await member.write([0x8A, 0x80, 0, 0, 0, 0])
      }
      #expect(try await member.readBeyondText() == [0x89, 0])
      await #expect(throws: SocketError.self) { while try await member.read() != nil {} }
      await member.close()
      #expect(try await chat.stop().failedByPeer == 1)
    }
  }

  @Test func `A member whose connection is reset has left`() async throws {
    try await within("the other member is told") {
      let chat = try RunningChat()
      let ada = try await chat.member("Ada")
      #expect(try await ada.readText() == "* Ada is here")
      let eve = try await chat.member("Eve")
      #expect(try await ada.readText() == "* Eve is here")
      await eve.abort()
      #expect(try await ada.readText() == "* Eve has left")
      await ada.close()
      #expect(try await chat.stop().failedByPeer == 1)
    }
  }

  @Test func `A new member hears the last twenty lines, in order`() async throws {
    try await within("the lines arrive") {
      let chat = try RunningChat()
      let ada = try await chat.member("Ada")
      for number in 0..<30 { try await ada.say("line \(number)") }
      while try await ada.readText() != "Ada: line 29" {}
      let eve = try await chat.member("Eve")
      for number in 10..<30 { #expect(try await eve.readText() == "Ada: line \(number)") }
      #expect(try await eve.readText() == "* Eve is here")
      for member in [ada, eve] { await member.close() }
      #expect(try await chat.stop().finished == 2)
    }
  }

  @Test func `A member that does not read is cut off, and delays no other`() async throws {
    try await within("the other member has all lines") {
      let chat = try RunningChat()
      let slow = try await chat.member("Eve")
      let ada = try await chat.member("Ada")
      let line = String(repeating: "x", count: 16_000)
      // More than the buffers of the kernel and the budget of the connection take.
      let speaking = Task { while !Task.isCancelled { try await ada.say(line) } }
      while try await ada.readText() != "* Eve has left" {}
      speaking.cancel()
      await ada.abort()
      await slow.abort()
      let report = try await chat.stop()
      #expect(report.accepted == 2 && report.failed == 0)
    }
  }
}
