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

  private static let upgrade = "GET /chat/Eve HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
  private static let version = "Sec-WebSocket-Version: 13\r\n"
  private static let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

  @Test(arguments: [
    // No HTTP, or no valid one.
    ("nonsense\r\n\r\n", 400), ("\u{16}\u{3}\u{1}\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nB: \u{1}\r\n\r\n", 400), ("GET / HTTP/2\r\nHost: a\r\n\r\n", 400),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a", 400),
    ("GET / HTTP/1.1\r\nHost: \(String(repeating: "a", count: 9000))\r\n\r\n", 431),
    // No server, or two.
    ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("\(upgrade)\(version)\(key)\r\n", 400),
    // Keys.
    ("\(upgrade)Host: a\r\n\(version)\r\n", 400), ("\(upgrade)Host: a\r\n\(version)\(key)\(key)\r\n", 400),
    ("\(upgrade)Host: a\r\n\(version)Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n\r\n", 400),
    ("\(upgrade)Host: a\r\n\(version)Sec-WebSocket-Key: ????????????????????????\r\n\r\n", 400),
    ("\(upgrade)Host: a\r\n\(version)Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZTEy\r\n\r\n", 400),
    ("POST\(upgrade.dropFirst(3))Host: a\r\n\(version)\(key)\r\n", 400),
    ("\(upgrade)Host: a\r\n\(key)\r\n", 426),
    // U+212A, the sign of the kelvin, is not the letter k.
    ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: webso\u{63}\u{212A}et\r\n\r\n", 200),
    // Origins.
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: http://b\r\n\r\n", 403),
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: null\r\n\r\n", 403),
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: http://a.b\r\n\r\n", 403),
    ("\(upgrade)Host: a:80\r\n\(version)\(key)Origin: http://a:81\r\n\r\n", 403),
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: http://a\r\nOrigin: http://b\r\n\r\n", 403),
    ("\(upgrade)Host: a:80\r\n\(version)\(key)Origin: http://A:80\r\n\r\n", 101),
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: https://a\r\n\r\n", 101),
    ("\(upgrade)Host: a\r\n\(version)\(key)Origin: https://friend.test\r\n\r\n", 101),
  ])
  func `A request is answered with its status, and not with a reset`(request: String, status: Int) async throws {
    try await within("the connection ends") {
      let chat = try RunningChat(origins: ["https://friend.test"])
      let client = try await TCPConnection.connect(to: .address(chat.address))
      try await client.write(utf8: request)
      try await client.finishWriting()
      let answer = try await client.read(upTo: 16_384) ?? []
      #expect(String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 \(status) "))
      while try await client.read() != nil {}
      await client.close()
      let report = try await chat.stop()
      #expect(report.finished == 1 && report.failed == 0)
    }
  }

  @Test func `A request that does not arrive is answered, too`() async throws {
    try await within("the connection ends") {
      let chat = try RunningChat(request: .milliseconds(50))
      let client = try await TCPConnection.connect(to: .address(chat.address))
      try await client.write(utf8: "GET / HT")
      #expect(
        String(decoding: try await client.read(until: "\r\n"), as: UTF8.self) == "HTTP/1.1 408 Request Timeout\r\n")
      while try await client.read() != nil {}
      await client.close()
      #expect(try await chat.stop().finished == 1)
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
      ([0x88, 0x82, 0, 0, 0, 0, 3, 0xE8], 1000), ([0x88, 0x82, 0, 0, 0, 0, 3, 0xF4], 1012),
      ([0x88, 0x82, 0, 0, 0, 0, 3, 0xF6], 1014), ([0x88, 0x82, 0, 0, 0, 0, 3, 0xF7], 1002),
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
      var heard = ""
      while heard != "* Eve has left" {
        try await ada.say(line)
        // Her own line comes back. So she reads as fast as she speaks, and little waits for her.
        repeat { heard = try await ada.readText() } while heard.hasPrefix("* Ada") || heard.hasPrefix("* Eve is")
      }
      await ada.abort()
      await slow.abort()
      let report = try await chat.stop()
      #expect(report.accepted == 2 && report.failed == 0)
    }
  }
}
