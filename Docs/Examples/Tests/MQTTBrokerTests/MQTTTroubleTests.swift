import ActorSockets
import ByteText
import ExampleSupport
import Testing

@testable import MQTTBroker

/// Clients that do not keep to the protocol, or do not read; and the parts of the broker that are values.
@Suite struct MQTTTroubleTests {
  /// CONNECT.
  static func connect(_ name: String, flags: UInt8 = 2, keepAlive: UInt16 = 0) -> MQTTPacket {
    let head: [UInt8] = [0, 4] + Array("MQTT".utf8) + [4, flags, UInt8(keepAlive >> 8), UInt8(keepAlive & 255)]
    return MQTTPacket(kind: .connect, body: head + [0, UInt8(name.utf8.count)] + Array(name.utf8))
  }

  /// Writes packets, and returns everything that the broker sends until it ends the connection.
  private func answer(_ packets: [MQTTPacket], from broker: RunningBroker) async throws -> [UInt8] {
    let connection = try await broker.connect()
    try await connection.write(messages: packets)
    return try await rest(of: connection)
  }

  private func rest(of connection: TCPConnection) async throws -> [UInt8] {
    var answer: [UInt8] = []
    do {
      while try await connection.read(into: &answer) > 0 {}
    } catch SocketError.Code.connectionReset {}
    await connection.close()
    return answer
  }

  @Test func `A client that violates the protocol is cut off`() async throws {
    try await within("the connections end") {
      let broker = try await RunningBroker()
      let ping = MQTTPacket(kind: .pingRequest, body: [])
      #expect(try await self.answer([ping], from: broker) == [])
      #expect(try await self.answer([Self.connect("a", flags: 1)], from: broker) == [])
      // A client without a name needs a clean session.
      #expect(try await self.answer([Self.connect("", flags: 0)], from: broker) == [0x20, 2, 0, 2])
      var old = Self.connect("a")
      old.body[6] = 3
      #expect(try await self.answer([old], from: broker) == [0x20, 2, 0, 1])
      let wildcard = MQTTPacket(kind: .publish, body: [0, 1, UInt8(ascii: "#")])
      let unnumbered = MQTTPacket(.publishAcknowledged, identifier: 0)
      for packet in [wildcard, Self.connect("a"), unnumbered] {
        let connection = try await broker.connect()
        try await connection.write(message: Self.connect("a"))
        #expect(try await connection.read(exactly: 4) == [0x20, 2, 0, 0])
        try await connection.write(message: packet)
        #expect(try await self.rest(of: connection) == [])
      }
      let report = try await broker.stop()
      #expect(report.failed == 0 && report.failedByPeer == 5 && report.finished == 2)
    }
  }

  @Test func `A client that is silent for too long is cut off`() async throws {
    try await within("the connection ends") {
      let broker = try await RunningBroker()
      let start = ContinuousClock.now
      #expect(try await self.answer([Self.connect("a", keepAlive: 1)], from: broker).prefix(4) == [0x20, 2, 0, 0])
      #expect(ContinuousClock.now - start >= .milliseconds(1500))
      var limits = MQTTBroker.Limits()
      limits.connect = .milliseconds(20)
      let impatient = try await RunningBroker(limits: limits)
      #expect(try await self.answer([], from: impatient) == [])
      _ = try await impatient.stop()
      _ = try await broker.stop()
    }
  }

  @Test func `A new connection of a client ends the old one`() async throws {
    try await within("the old connection ends") {
      let broker = try await RunningBroker()
      let old = try await broker.connect()
      try await old.write(message: Self.connect("me"))
      #expect(try await old.read(exactly: 4) == [0x20, 2, 0, 0])
      let new = try await broker.connect()
      try await new.write(message: Self.connect("me"))
      #expect(try await new.read(exactly: 4) == [0x20, 2, 0, 0])
      #expect(try await self.rest(of: old) == [])
      try await new.write(messages: [MQTTPacket(kind: .pingRequest, body: []), MQTTPacket(kind: .disconnect, body: [])])
      #expect(try await self.rest(of: new) == [0xD0, 0])
      _ = try await broker.stop()
    }
  }

  @Test func `A message of quality 2 that is sent again is published once`() async throws {
    try await within("the messages arrive") {
      let broker = try await RunningBroker()
      let subscriber = try await broker.connect()
      let subscribe = MQTTPacket(kind: .subscribe, flags: 2, body: [0, 1, 0, 1, UInt8(ascii: "t"), 0])
      try await subscriber.write(messages: [Self.connect("subscriber"), subscribe])
      _ = try await subscriber.read(exactly: 9)
      let sender = try await broker.connect()
      try await sender.write(message: Self.connect("sender"))
      _ = try await sender.read(exactly: 4)
      let first = MQTTMessage(topic: ByteText("t"), payload: [1], quality: 2, isRetained: false)
      let release = MQTTPacket(.publishRelease, identifier: 7)
      // After the release, the same identifier is another message.
      let second = MQTTMessage(topic: ByteText("t"), payload: [2], quality: 2, isRetained: false)
      try await sender.write(
        messages: [
          first.packet(identifier: 7), first.packet(identifier: 7, isRepeated: true), release,
          second.packet(identifier: 7),
        ])
      #expect(try await sender.read(exactly: 16) == [0x50, 2, 0, 7, 0x50, 2, 0, 7, 0x70, 2, 0, 7, 0x50, 2, 0, 7])
      for number in [1, 2] as [UInt8] {
        #expect(try await subscriber.read(exactly: 6) == [0x30, 4, 0, 1, UInt8(ascii: "t"), number])
      }
      for connection in [subscriber, sender] { await connection.close() }
      _ = try await broker.stop()
    }
  }

  @Test func `A client that does not read is cut off, and the others get everything`() async throws {
    try await within("the slow client is cut off") {
      let broker = try await RunningBroker()
      let subscribe = MQTTPacket(kind: .subscribe, flags: 2, body: [0, 1, 0, 1, UInt8(ascii: "t"), 0])
      let slow = try await broker.connect()
      try await slow.write(messages: [Self.connect("slow"), subscribe])
      _ = try await slow.read(exactly: 9)
      let quick = try await broker.connect()
      try await quick.write(messages: [Self.connect("quick"), subscribe])
      _ = try await quick.read(exactly: 9)
      let sender = try await broker.connect()
      try await sender.write(message: Self.connect("sender"))
      _ = try await sender.read(exactly: 4)
      let message = MQTTMessage(
        topic: ByteText("t"), payload: [UInt8](repeating: 7, count: 500_000), quality: 1, isRetained: false)
      // More than the kernel's buffers and the budget of a connection take.
      for number in 1...60 as ClosedRange<UInt16> {
        try await sender.write(message: message.packet(identifier: number))
        #expect(try await sender.read(exactly: 4) == [0x40, 2, 0, UInt8(number)])
        let packet: MQTTPacket? = try await quick.read(.parsing(maximumLength: 1 << 20, MQTTPacket.parse))
        #expect(packet?.body.count == 3 + message.payload.count)
      }
      await slow.abort()
      await quick.close()
      await sender.close()
      let report = try await broker.stop()
      #expect(report.failedByPeer == 1 && report.failed == 0)
    }
  }

  @Test(arguments: [
    ("a", "a", true), ("a", "b", false), ("a/b", "a/b", true), ("a/+", "a/b", true), ("a/+", "a", false),
    ("a/+", "a/b/c", false),
    ("+", "a", true), ("+", "/a", false), ("+/+", "/a", true), ("/+", "/a", true), ("#", "a/b", true),
    ("a/#", "a", true),
    ("a/#", "a/b/c", true), ("a/#", "ab", false), ("#", "$SYS/a", false), ("+/a", "$SYS/a", false),
    ("$SYS/#", "$SYS/a", true),
    ("a//b", "a//b", true), ("a/+/b", "a//b", true), ("A", "a", false),
    // Texts that look the same, and a slash with an accent behind it.
    ("K", "\u{212A}", false), ("\u{E9}", "e\u{301}", false), ("+/+", "a/\u{301}b", true), ("+", "a/\u{301}b", false),
    ("a/#", "a/\u{301}b", true), ("a/\u{301}b", "a/\u{301}b", true), ("+/\u{338}", "a/\u{338}", true),
  ])
  func `A filter matches its topics`(filter: String, topic: String, matches: Bool) {
    #expect(MQTTTopic.matches(ByteText(filter), ByteText(topic)) == matches)
    #expect(MQTTTopic.isValid(filter: ByteText(filter)) && MQTTTopic.isValid(ByteText(topic)))
  }

  @Test(arguments: ["", "a#", "#/a", "a/#/b", "a+", "a/b+/c", "++", "#\u{301}", "+\u{301}/a"])
  func `A text that is not a filter is refused`(filter: String) {
    #expect(!MQTTTopic.isValid(filter: ByteText(filter)))
  }

  @Test func `A packet is the same after it was written and parsed`() throws {
    for count in [0, 1, 127, 128, 16_383, 16_384, 2_097_152] {
      let packet = MQTTPacket(kind: .publish, flags: 2, body: [UInt8](repeating: 9, count: count))
      var bytes: [UInt8] = []
      try packet.append(to: &bytes)
      for end in [1, 2, 3, bytes.count - 1] where end < bytes.count && end > 0 {
        let part = bytes[..<end]
        guard case .incomplete = try MQTTPacket.parse(part.span) else { throw MQTTViolation.length }
      }
      let longer = bytes + [0]
      guard case .message(let parsed, let length) = try MQTTPacket.parse(longer.span) else {
        throw MQTTViolation.length
      }
      #expect(parsed == packet && length == bytes.count)
    }
    #expect(throws: MQTTViolation.length) { try MQTTPacket.parse(([0x30, 255, 255, 255, 255, 1] as [UInt8]).span) }
    #expect(throws: MQTTViolation.type) { try MQTTPacket.parse(([0x36, 0] as [UInt8]).span) }
    #expect(throws: MQTTViolation.type) { try MQTTPacket.parse(([0xF0, 0] as [UInt8]).span) }
  }
}
