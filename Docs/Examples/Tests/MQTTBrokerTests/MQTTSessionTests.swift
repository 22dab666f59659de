import ByteText
import Testing

@testable import MQTTBroker

/// The values that keep messages and subscriptions for clients.
@Suite struct MQTTSessionTests {
  @Test func `A session keeps what is not acknowledged, up to a limit`() throws {
    var session = MQTTSession(limits: Self.two)
    let granted = [("a/+", 2), ("a/b", 0)].map { session.subscribe(to: ByteText($0), quality: $1) }
    #expect(granted == [1, 0])
    let message = MQTTMessage(topic: ByteText("a/b"), payload: [1], quality: 2, isRetained: false)
    let delivery = try #require(session.delivery(of: message))
    #expect(delivery.quality == 1)
    let packets = [session.packet(for: delivery), session.packet(for: delivery), session.packet(for: delivery)]
    #expect(packets.map { $0?.body.suffix(3) } == [[0, 1, 1], [0, 2, 1], nil])
    #expect(session.dropped == 1)
    session.acknowledge(1)
    #expect(session.unacknowledged.map(\.identifier) == [2])
    session.unsubscribe(from: ByteText("a/+"))
    #expect(session.delivery(of: message)?.quality == 0)
    var isNew = [session.note(received: 7), session.note(received: 7)]
    session.release(7)
    isNew.append(session.note(received: 7))
    #expect(isNew == [true, false, true])
  }

  @Test func `A session has a limit of subscriptions, and one that exists can be changed`() {
    var session = MQTTSession(limits: Self.two)
    var granted = [("a", 0), ("b", 1), ("c", 0), ("a", 2)].map { session.subscribe(to: ByteText($0), quality: $1) }
    session.unsubscribe(from: ByteText("b"))
    granted.append(session.subscribe(to: ByteText("c"), quality: 0))
    #expect(granted == [0, 1, nil, 1, 0])
  }

  private static let two: MQTTSession.Limits = {
    var limits = MQTTSession.Limits()
    (limits.waitingMessages, limits.subscriptions) = (2, 2)
    return limits
  }()

  private func message(_ topic: String, _ count: Int, quality: UInt8 = 0) -> MQTTMessage {
    MQTTMessage(
      topic: ByteText(topic), payload: [UInt8](repeating: 1, count: count), quality: quality, isRetained: true)
  }

  @Test func `The bytes that wait for a client have a limit, whatever the number of messages`() {
    var limits = MQTTSession.Limits()
    limits.waitingBytes = 10
    var session = MQTTSession(limits: limits)
    func waits(_ count: Int, room: Int = .max) -> Bool {
      session.packet(for: message("a", count, quality: 1), room: room) != nil
    }
    // The topic has one byte. So these are one more than the limit, exactly the limit, and one more.
    var outcomes = [waits(10), waits(4), waits(4), waits(0)]
    #expect(outcomes == [false, true, true, false] && session.bytes == 10 && session.dropped == 2)
    session.acknowledge(1)
    session.acknowledge(1)
    #expect(session.bytes == 5, "a second acknowledgement counts for nothing")
    // The broker may have less room than the session.
    outcomes = [waits(5), waits(4, room: 4), waits(4, room: 5)]
    #expect(outcomes == [false, false, true] && session.bytes == 10)
  }

  @Test func `The bytes of a client's filters have a limit`() {
    var limits = MQTTSession.Limits()
    limits.filterBytes = 10
    var session = MQTTSession(limits: limits)
    func granted(_ filter: String, _ quality: UInt8, room: Int = .max) -> UInt8? {
      session.subscribe(to: ByteText(filter), quality: quality, room: room)
    }
    var results = [granted("12345678901", 0), granted("1234567890", 0), granted("1234567890", 1), granted("1", 1)]
    #expect(results == [nil, 0, 1, nil] && session.bytes == 10)
    for filter in ["2", "1234567890", "1234567890"] { session.unsubscribe(from: ByteText(filter)) }
    #expect(session.bytes == 0)
    results = [granted("1", 1, room: 0), granted("1", 1, room: 1)]
    #expect(results == [nil, 1] && session.bytes == 1)
  }

  @Test func `The bytes of retained messages have a limit, for each client and for all`() {
    var retained = MQTTRetained(limits: .init(messages: 10, bytes: 20, bytesOfClient: 12))
    func keep(_ topic: String, _ count: Int, _ sender: String) -> [Int] {
      let isKept = retained.keep(message(topic, count), from: ByteText(sender))
      return [isKept ? 1 : 0, retained.bytes]
    }
    #expect(keep("a", 12, "one") == [0, 0] && keep("a", 11, "one") == [1, 12])
    #expect(keep("b", 1, "one") == [0, 12], "this client has no room")
    #expect(keep("b", 8, "two") == [0, 12] && keep("b", 7, "two") == [1, 20] && keep("c", 1, "three") == [0, 20])
    // A message takes the place of another one, also of one from another client.
    #expect(keep("a", 2, "two") == [1, 11] && keep("d", 8, "one") == [1, 20] && keep("d", 0, "two") == [1, 11])
    // If there is no room for it, the old one does not stay.
    #expect(keep("b", 30, "two") == [0, 3] && keep("a", 0, "one") == [1, 0])
    #expect(Array(retained.messages).isEmpty)
  }

  @Test func `Topics that look the same have retained messages of their own`() {
    var retained = MQTTRetained(limits: .init())
    for topic in ["K", "\u{212A}", "\u{E9}", "e\u{301}"] { retained.keep(message(topic, 1), from: ByteText("one")) }
    #expect(Array(retained.messages).count == 4)
  }
}
