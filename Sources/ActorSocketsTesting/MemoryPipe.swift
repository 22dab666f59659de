// One end of an in-memory connection, as a pure state machine. It corresponds to the buffers of a TCP socket.
//
// Each end grants the other credit, in bytes: the room in its receive buffer. Sending uses up credit and puts the bytes into a message for
// the other end. Receiving makes room, and returns it as new credit in a message.
//
// Invariants:
// - Credit + bytes in flight + bytes arrived and not received == capacity. So the other end never holds more.
// - Bytes arrive in the order in which they were sent. The end of the stream comes after them. Nothing comes after a reset.

internal import ActorSockets

struct MemoryPipe {
  private(set) var credit: Int
  private(set) var arrived = ByteQueue()
  private(set) var hasEnded = false
  private(set) var isReset = false
  private(set) var hasFinished = false

  init(capacity: Int) { credit = capacity }

  /// Takes credit for up to `count` bytes, and returns the number of bytes that may be sent.
  mutating func send(_ count: Int) -> Int {
    let allowed = min(count, credit)
    credit -= allowed
    assert(credit >= 0, "more bytes were sent than the other end has room for")
    return allowed
  }

  mutating func granted(_ count: Int) { credit += count }

  mutating func received(_ bytes: [UInt8]) {
    assert(!hasEnded, "bytes came after the end")
    arrived.append(bytes.span)
  }

  /// The other end sends no more.
  mutating func ended() { hasEnded = true }

  mutating func reset() { isReset = true }

  /// This end sends no more.
  mutating func finish() { hasFinished = true }

  /// The bytes become credit for the other end.
  mutating func take(_ count: Int) -> [UInt8] { arrived.take(min(count, arrived.count)) }
}
