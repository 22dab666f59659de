import ActorSockets
import ByteText
import ExampleSupport
import Testing

@testable import MQTTBroker

/// What the broker keeps for clients, and how much of it.
@Suite struct MQTTLimitTests {
  /// Connects a client, and returns the connection and whether its session continues.
  private func connect(
    _ name: String, isClean: Bool, to broker: RunningBroker
  ) async throws -> (connection: TCPConnection, continues: Bool) {
    let connection = try await broker.connect()
    try await connection.write(message: MQTTTroubleTests.connect(name, flags: isClean ? 2 : 0))
    let answer = try await connection.read(exactly: 4)
    #expect(answer[0] == 0x20 && answer[3] == 0)
    return (connection, answer[2] == 1)
  }

  /// Ends a connection, and waits until the broker knows it.
  private func disconnect(_ connection: TCPConnection) async throws {
    try await connection.write(message: MQTTPacket(kind: .disconnect, body: []))
    #expect(try await connection.read() == nil)
    await connection.close()
  }

  private func visit(_ name: String, isClean: Bool = false, _ broker: RunningBroker) async throws -> Bool {
    let (connection, continues) = try await connect(name, isClean: isClean, to: broker)
    try await disconnect(connection)
    return continues
  }

  @Test func `Sessions of clients that are away have a limit, which clean sessions do not use up`() async throws {
    try await within("the clients are answered") {
      var limits = MQTTBroker.Limits()
      limits.sleepingSessions = 1
      let broker = try await RunningBroker(limits: limits)
      #expect(try await !self.visit("clean", isClean: true, broker))
      #expect(try await !self.visit("first", broker))
      #expect(try await !self.visit("second", broker))
      #expect(try await self.visit("first", broker))
      #expect(try await !self.visit("second", broker))
      _ = try await broker.stop()
    }
  }

  @Test func `Retained messages have a limit, and one that exists can be replaced`() async throws {
    try await within("the messages arrive") {
      var limits = MQTTBroker.Limits()
      // One of them is that of the broker for these tests.
      limits.retained.messages = 2
      let broker = try await RunningBroker(limits: limits)
      let (subscriber, _) = try await self.connect("subscriber", isClean: true, to: broker)
      let subscribe = MQTTPacket(kind: .subscribe, flags: 2, body: [0, 1, 0, 1, UInt8(ascii: "+"), 0])
      try await subscriber.write(message: subscribe)
      _ = try await subscriber.read(exactly: 5)
      let (sender, _) = try await self.connect("sender", isClean: true, to: broker)
      for (topic, value) in [("a", 1), ("b", 2), ("a", 3)] as [(String, UInt8)] {
        let message = MQTTMessage(topic: ByteText(topic), payload: [value], quality: 0, isRetained: true)
        try await sender.write(message: message.packet(identifier: 0))
        // The subscription was there before, so the message counts as new: its flag is off.
        #expect(try await subscriber.read(exactly: 6) == [0x30, 4, 0, 1, topic.utf8.first ?? 0, value])
      }
      let (late, _) = try await self.connect("late", isClean: true, to: broker)
      try await late.write(messages: [subscribe, MQTTPacket(kind: .pingRequest, body: [])])
      #expect(try await late.read(exactly: 5) == [0x90, 3, 0, 1, 0])
      #expect(try await late.read(exactly: 8) == [0x31, 4, 0, 1, UInt8(ascii: "a"), 3, 0xD0, 0])
      for connection in [subscriber, sender, late] { try await self.disconnect(connection) }
      _ = try await broker.stop()
    }
  }

  @Test func `Sessions together have a limit of bytes, which ends with them`() async throws {
    try await within("the messages are counted") {
      var limits = MQTTBroker.Limits()
      limits.sessionBytes = 2500
      let broker = try await RunningBroker(limits: limits)
      let subscribe = MQTTPacket(kind: .subscribe, flags: 2, body: [0, 1, 0, 1, UInt8(ascii: "t"), 1])
      for name in ["one", "two", "three"] {
        let (connection, _) = try await self.connect(name, isClean: false, to: broker)
        try await connection.write(message: subscribe)
        #expect(try await connection.read(exactly: 5) == [0x90, 3, 0, 1, 1])
        try await self.disconnect(connection)
      }
      #expect(await broker.broker.sessionBytes == 3)
      let (sender, _) = try await self.connect("sender", isClean: true, to: broker)
      let message = MQTTMessage(
        topic: ByteText("t"), payload: [UInt8](repeating: 1, count: 1000), quality: 1, isRetained: false)
      try await sender.write(message: message.packet(identifier: 1))
      #expect(try await sender.read(exactly: 4) == [0x40, 2, 0, 1])
      // Two of three have it.
      #expect(await broker.broker.sessionBytes == 2005)
      for name in ["one", "two", "three"] { #expect(try await !self.visit(name, isClean: true, broker)) }
      #expect(await broker.broker.sessionBytes == 0)
      try await self.disconnect(sender)
      _ = try await broker.stop()
    }
  }

  @Test func `Clients whose names look the same have sessions of their own, and a name has a largest length`()
    async throws
  {
    try await within("the clients are answered") {
      let broker = try await RunningBroker()
      let first = try await broker.connect()
      try await first.write(message: MQTTTroubleTests.connect("K"))
      #expect(try await first.read(exactly: 4) == [0x20, 2, 0, 0])
      let second = try await broker.connect()
      try await second.write(message: MQTTTroubleTests.connect("\u{212A}"))
      #expect(try await second.read(exactly: 4) == [0x20, 2, 0, 0])
      // The first one is still there.
      try await first.write(message: MQTTPacket(kind: .pingRequest, body: []))
      #expect(try await first.read(exactly: 2) == [0xD0, 0])
      for connection in [first, second] { try await self.disconnect(connection) }
      var limits = MQTTBroker.Limits()
      limits.clientIDLength = 3
      let strict = try await RunningBroker(limits: limits)
      #expect(try await !self.visit("abc", strict))
      let long = try await strict.connect()
      try await long.write(message: MQTTTroubleTests.connect("abcd"))
      #expect(try await long.read(exactly: 4) == [0x20, 2, 0, 2])
      #expect(try await long.read() == nil)
      await long.close()
      _ = try await strict.stop()
      _ = try await broker.stop()
    }
  }
}
