// One end of an in-memory connection, as a pure state machine. It corresponds to the buffers of a TCP socket.
//
// Each end grants the other credit, in bytes: the room in its receive buffer. Sending uses up credit and puts the bytes
// into a message for the other end. Receiving makes room, and returns it as new credit in a message.
//
// Invariants:
// - Credit + bytes in flight + bytes arrived and not received == capacity. So the other end never holds more.
// - Bytes arrive in the order in which they were sent. The end of the stream comes after them. Nothing comes after a
//   reset.

internal import ActorSockets

struct MemoryPipe {
  /// The number of bytes that the other end has room for.
  private(set) var credit: Int
  private(set) var arrived = ByteQueue()
  private(set) var hasEnded = false
  private(set) var isReset = false
  private(set) var hasFinished = false

  init(capacity: Int) { credit = capacity }

  /// Takes credit for as many of `count` bytes as possible. Returns the number of bytes that may be sent.
  mutating func send(_ count: Int) -> Int {
    let allowed = min(count, credit)
    credit -= allowed
    assert(credit >= 0, "more bytes were sent than the other end has room for")
    return allowed
  }

  /// Adds the room that the other end made.
  mutating func granted(_ count: Int) { credit += count }

  /// Adds bytes that the other end sent.
  mutating func received(_ bytes: [UInt8]) {
    assert(!hasEnded, "bytes came after the end")
    arrived.append(bytes.span)
  }

  /// Records that the other end sends no more.
  mutating func ended() { hasEnded = true }

  /// Records that the other end was aborted.
  mutating func reset() { isReset = true }

  /// Records that this end sends no more.
  mutating func finish() { hasFinished = true }

  /// Takes out up to `count` bytes. They become credit for the other end.
  mutating func take(_ count: Int) -> [UInt8] { arrived.take(min(count, arrived.count)) }
}
