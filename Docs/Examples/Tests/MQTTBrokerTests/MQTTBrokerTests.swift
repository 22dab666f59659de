import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import MQTTBroker

@Suite struct MQTTBrokerTests {
  @Test(.needs(.mosquittoSub), .needs(.mosquittoPub), arguments: ["0", "1", "2"])
  func `mosquitto_sub gets what mosquitto_pub publishes`(quality: String) async throws {
    try await within("the messages are there") {
      let broker = try await RunningBroker()
      let all = try await broker.subscriber("-t", "house/#", "-q", quality, "-C", "5")
      let some = try await broker.subscriber("-t", "house/+/light", "-q", quality, "-C", "3")
      try await broker.publish("21.5", to: "house/kitchen/heat", "-q", quality)
      try await broker.publish("on", to: "house/kitchen/light", "-q", quality)
      try await broker.publish("not for them", to: "garden", "-q", quality)
      try await broker.publish("off", to: "house/hall/light", "-q", quality)
      try await broker.publish("closed", to: "house", "-q", quality)
      #expect(try await all.exitStatus() == 0)
      #expect(
        await all.output.whole
          == "test/ready ready\nhouse/kitchen/heat 21.5\nhouse/kitchen/light on\nhouse/hall/light off\nhouse closed\n")
      #expect(try await some.exitStatus() == 0)
      #expect(await some.output.whole == "test/ready ready\nhouse/kitchen/light on\nhouse/hall/light off\n")
      let report = try await broker.stop()
      #expect(report.failed == 0 && report.failedByPeer == 0)
    }
  }

  @Test(.needs(.mosquittoSub), .needs(.mosquittoPub))
  func `Retained messages are there for later clients until they are removed`() async throws {
    try await within("the messages are there") {
      let broker = try await RunningBroker()
      try await broker.publish("old", to: "door", "-r")
      try await broker.publish("open", to: "door", "-r")
      try await broker.publish("gone", to: "window", "-r")
      try await broker.publish("", to: "window", "-r")
      let late = try await broker.subscriber("-t", "door", "-t", "window", "-t", "end", "-C", "3")
      try await late.waitForOutput("door open\n")
      try await broker.publish("end", to: "end")
      #expect(try await late.exitStatus() == 0)
      #expect(Set(await late.output.whole.split(separator: "\n")) == ["test/ready ready", "door open", "end end"])
      _ = try await broker.stop()
    }
  }

  @Test(.needs(.mosquittoSub), .needs(.mosquittoPub))
  func `A session keeps messages while its client is away`() async throws {
    try await within("the messages are there") {
      let broker = try await RunningBroker()
      let first = try await broker.subscriber("-i", "me", "-c", "-q", "1", "-t", "news")
      await first.kill(SIGKILL)
      _ = await first.output.whole
      for number in 1...3 { try await broker.publish("\(number)", to: "news", "-q", "1") }
      try await broker.publish("not kept, because it needs no acknowledgement", to: "news")
      let second = try await broker.subscriber("-i", "me", "-c", "-q", "1", "-t", "news", "-C", "4")
      #expect(try await second.exitStatus() == 0)
      #expect(await second.output.whole == "news 1\nnews 2\nnews 3\ntest/ready ready\n")
      // A clean session ends the earlier one.
      let third = try await broker.subscriber("-i", "me", "-q", "1", "-t", "other", "-C", "1")
      #expect(try await third.exitStatus() == 0)
      _ = try await broker.stop()
    }
  }

  @Test(.needs(.mosquittoSub), .needs(.mosquittoPub))
  func `The will of a client that is killed is published, and not of one that says goodbye`() async throws {
    try await within("the will is there") {
      let broker = try await RunningBroker()
      let watcher = try await broker.subscriber("-t", "will/#", "-C", "3")
      let will = ["--will-topic", "will/polite", "--will-payload", "was polite"]
      let polite = try await broker.subscriber(will[0], will[1], will[2], will[3], "-C", "1")
      #expect(try await polite.exitStatus() == 0)
      let killed = try await broker.subscriber("--will-topic", "will/killed", "--will-payload", "was killed")
      await killed.kill(SIGKILL)
      try await watcher.waitForOutput("will/killed was killed\n")
      try await broker.publish("end", to: "will/end")
      #expect(try await watcher.exitStatus() == 0)
      #expect(await watcher.output.whole == "test/ready ready\nwill/killed was killed\nwill/end end\n")
      _ = try await broker.stop()
    }
  }

  @Test(.needs(.mosquittoSub), .needs(.mosquittoPub))
  func `A large message arrives, and an unauthorized client does not get in`() async throws {
    try await within("the message is there") {
      let broker = try await RunningBroker { $0.user == nil || $0.password == Array("secret".utf8) }
      let subscriber = try await broker.subscriber("-t", "large", "-C", "2", "-u", "me", "-P", "secret")
      let text = String(repeating: "large ", count: 20_000)
      try await broker.publish(text, to: "large", "-q", "1")
      #expect(try await subscriber.exitStatus() == 0)
      #expect(await subscriber.output.whole == "test/ready ready\nlarge \(text)\n")
      let refused = try Program(
        .mosquittoPub,
        ["-h", "127.0.0.1", "-p", "\(broker.address.port ?? 0)", "-u", "me", "-P", "guess", "-t", "a", "-m", "b"])
      #expect(try await refused.exitStatus() == 5)
      _ = try await broker.stop()
    }
  }

  @Test(.needs(.mqttBroker), .needs(.mosquittoPub))
  func `SIGTERM stops the program`() async throws {
    try await within("the program ends") {
      let program = try Program(.mqttBroker, ["127.0.0.1:0"])
      try await program.waitForOutput("\n")
      let line = try #require(await program.output.text.firstMatch(of: /listening on 127\.0\.0\.1:(\d+)/))
      _ = try await Program.run(
        .mosquittoPub, ["-h", "127.0.0.1", "-p", String(line.1), "-t", "a", "-m", "b", "-q", "2"])
      await program.kill(SIGTERM)
      #expect(try await program.exitStatus() == 0)
    }
  }
}
