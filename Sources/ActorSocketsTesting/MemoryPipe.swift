// One end of an in-memory connection, a pure machine: what a socket's buffers are to TCP.
//
// Each end grants the other credit, in bytes: the room of its receive buffer. Sending takes from the credit and hands the
// bytes to a message for the other end; receiving makes room, and gives it back as new credit in a message.
//
// Invariants:
// - Credit + bytes under way + bytes arrived and not received == capacity. So the other end never holds more.
// - Bytes arrive in the order in which they were sent, the end of the stream behind them, a reset before nothing else.

internal import ActorSockets

struct MemoryPipe {
  /// The bytes that the other end has room for.
  private(set) var credit: Int
  private(set) var arrived = ByteQueue()
  private(set) var hasEnded = false
  private(set) var isReset = false
  private(set) var hasFinished = false

  init(capacity: Int) { credit = capacity }

  /// Takes what may be sent of `count` bytes from the credit.
  mutating func send(_ count: Int) -> Int {
    let allowed = min(count, credit)
    credit -= allowed
    return allowed
  }

  /// The other end made room.
  mutating func granted(_ count: Int) { credit += count }

  /// The other end sent bytes.
  mutating func received(_ bytes: [UInt8]) { arrived.append(bytes.span) }

  /// The other end sends no more.
  mutating func ended() { hasEnded = true }

  /// The other end is gone.
  mutating func reset() { isReset = true }

  /// This end sends no more.
  mutating func finish() { hasFinished = true }

  /// Takes up to `count` bytes out; they are credit for the other end.
  mutating func take(_ count: Int) -> [UInt8] { arrived.take(min(count, arrived.count)) }
}
