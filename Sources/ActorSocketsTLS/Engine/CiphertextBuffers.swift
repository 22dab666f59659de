// Ciphertext on its way to OpenSSL and from it.
//
//                 lend or feed                    withOutput
//    ciphertext ──────────────▶ input ──▶ SSL ──▶ output ─────▶ ciphertext
//
// SSL reads its input where the caller has it: the bytes are lent for one call on SSL, and what SSL did not read stays the caller's. Only
// `feed` copies, for a handshake, whose bytes must outlive the call that brought them.
//
// Invariants:
// - The input is lent, or is in `fed`, never both. No lent bytes are left after the call that they were lent for.
// - The output has at most `outputLimit` bytes, and so has its memory. At this limit SSL is told to try again, as at a socket without room.
// - An idle connection has neither input nor output, and no memory for them.

internal import ActorSockets
internal import SocketSystem

/// The sizes of a record, RFC 8446, section 5.
enum TLSRecord {
  static let maximumPlaintext = 16_384
  /// The most bytes that a record adds to its plaintext: header, initialisation vector, padding and checksum.
  static let maximumOverhead = 256
}

/// Where ciphertext goes.
protocol CiphertextSink: AnyObject {
  /// Returns how many bytes were sent, or will never be. Must not use the engine that calls.
  func sendCiphertext(_ output: Span<UInt8>) -> Int
}

struct CiphertextBuffers {
  /// Room for the largest record and the beginning of the next one.
  static let feedLimit = 17_408
  /// Four records go out in one system call.
  static let outputLimit = 4 * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)

  /// Those of the lent bytes that were not read.
  private var lent = Lent()
  private var fed: [UInt8] = []
  private var fedStart = 0
  private(set) var inputIsOver = false

  private var output: [UInt8] = []
  private var outputStart = 0
  private var outputLimit = CiphertextBuffers.outputLimit
  /// How much output is about to come.
  private var expectedOutput = 0
  /// Gets the first output of a call at once, unless earlier output is left. `nil` if all output is kept.
  private var sink: (any CiphertextSink)?

  @safe private struct Lent {
    // SAFETY: the bytes are valid until they are taken back, as `lend` says.
    var left = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    var count = 0

    // SAFETY: a count is no access to the bytes.
    var leftCount: Int { unsafe left.count }
  }

  // MARK: Ciphertext in

  private var inputCount: Int { lent.leftCount + fed.count - fedStart }
  var hasInput: Bool { inputCount > 0 }

  /// Copies as many of the bytes as fit, and returns their number.
  mutating func feed(_ ciphertext: Span<UInt8>) -> Int {
    if inputIsOver { return 0 }
    let count = min(ciphertext.count, Self.feedLimit - inputCount)
    fed.append(copying: ciphertext.extracting(first: count))
    return count
  }

  /// Lends the bytes to the next calls on SSL, unless there is other input. They must stay valid until `takeBack()`.
  mutating func lend(_ ciphertext: UnsafeRawBufferPointer) {
    if hasInput || inputIsOver { return }
    // SAFETY: as the caller promises.
    unsafe lent.left = ciphertext
    lent.count = ciphertext.count
  }

  /// Returns how many of the lent bytes were read.
  mutating func takeBack() -> Int {
    defer { lent = Lent() }
    return lent.count - lent.leftCount
  }

  mutating func endInput() { inputIsOver = true }

  /// Returns -1 if there is nothing now, and 0 at the end.
  mutating func read(into memory: UnsafeMutableRawBufferPointer) -> Int {
    if !hasInput { return inputIsOver ? 0 : -1 }
    // SAFETY: no more bytes are copied than there is room for, from bytes that are valid now.
    if lent.leftCount > 0 {
      let count = min(memory.count, lent.leftCount)
      unsafe memory.copyMemory(from: UnsafeRawBufferPointer(rebasing: lent.left[..<count]))
      unsafe lent.left = UnsafeRawBufferPointer(rebasing: lent.left[count...])
      return count
    }
    let count = min(memory.count, fed.count - fedStart)
    unsafe fed.withUnsafeBytes {
      unsafe memory.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[fedStart..<fedStart + count]))
    }
    fedStart += count
    if fedStart == fed.count {
      fed = []
      fedStart = 0
    }
    return count
  }

  // MARK: Ciphertext out

  var hasOutput: Bool { outputCount > 0 }
  var outputCount: Int { output.count - outputStart }
  var outputRoom: Int { outputLimit - outputCount }

  /// Before SSL encrypts `count` bytes. If these are one record, it goes to the sink from SSL's memory; what SSL writes after it is kept.
  mutating func beginWriting(_ count: Int, to sink: any CiphertextSink) {
    if count <= TLSRecord.maximumPlaintext { self.sink = sink }
    let records = (count - 1) / TLSRecord.maximumPlaintext + 1
    expectedOutput = count + records * TLSRecord.maximumOverhead
  }

  mutating func endWriting() {
    sink = nil
    expectedOutput = 0
  }

  /// Only close_notify follows, which must not be cut off.
  mutating func makeRoomForLastRecord() { outputLimit = Self.outputLimit + TLSRecord.maximumOverhead }

  /// Passes the ciphertext to send to `body`, until `body` returns 0. `body` returns how many bytes it sent. Returns whether all of the
  /// ciphertext was sent.
  mutating func withOutput(_ body: (Span<UInt8>) -> Int) -> Bool {
    while hasOutput {
      let sent = min(body(output.span.extracting(outputStart..<output.count)), outputCount)
      if sent <= 0 { return false }
      outputStart += sent
    }
    output = []
    outputStart = 0
    return true
  }

  /// Returns how many bytes were sent or kept, 0 if there is no room.
  mutating func write(_ bytes: Span<UInt8>) -> Int {
    let count = min(bytes.count, outputRoom)
    var sent = 0
    if !hasOutput, let sink = sink.take() { sent = min(sink.sendCiphertext(bytes.extracting(first: count)), count) }
    if sent < count { keep(bytes.extracting(sent..<count)) }
    return count
  }

  private mutating func keep(_ bytes: Span<UInt8>) {
    if output.count + bytes.count > outputLimit {
      // Bytes that were sent are dropped here if the output is not sent as a whole.
      output.removeFirst(outputStart)
      outputStart = 0
    }
    let count = output.count + bytes.count
    if count > output.capacity {
      // By itself the array would grow beyond the limit.
      output.reserveCapacity(min(max(count, expectedOutput, 2 * output.capacity), outputLimit))
    }
    output.append(copying: bytes)
  }
}
