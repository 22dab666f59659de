import ActorSockets
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
      limits.retainedMessages = 2
      let broker = try await RunningBroker(limits: limits)
      let (subscriber, _) = try await self.connect("subscriber", isClean: true, to: broker)
      let subscribe = MQTTPacket(kind: .subscribe, flags: 2, body: [0, 1, 0, 1, UInt8(ascii: "+"), 0])
      try await subscriber.write(message: subscribe)
      _ = try await subscriber.read(exactly: 5)
      let (sender, _) = try await self.connect("sender", isClean: true, to: broker)
      for (topic, value) in [("a", 1), ("b", 2), ("a", 3)] as [(String, UInt8)] {
        let message = MQTTMessage(topic: topic, payload: [value], quality: 0, isRetained: true)
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
}
