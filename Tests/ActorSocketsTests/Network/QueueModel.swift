// What may come out of the two queues of a connection.
//
// Invariants:
// - The results of the reads, in the order of their calls, are the stream that the peer sends: no byte is lost, doubled or out of place,
//   whatever fails between them.
// - The messages that arrive are some of those written: whole, once, and in the order of the calls. A write that succeeded arrives. A
//   write that failed before it sent a byte does not. Of any other one, the peer may get the message.
// - An operation fails only with a cause: it was cancelled, its time is over, a read before it failed, a limit was exceeded, or the
//   connection has ended.
// - Virtual time is exact: an operation that timed out has used its time, and one whose time counts from the call succeeds within it.

import ActorSockets
import TestSupport

/// How an operation ended, and when.
struct OperationResult: Sendable {
  let result: Result<[UInt8], any Error>
  let end: ContinuousClock.Instant

  /// Carries out an operation.
  init(_ body: () async throws -> [UInt8]) async {
    do { result = .success(try await body()) } catch { result = .failure(error) }
    end = .now
  }
}

/// The results that the operations on a connection may have.
struct QueueModel {
  enum ReadKind: CaseIterable, Sendable { case exactly, into, available, line, peek, enqueued }

  /// A result that no queue could give.
  struct Violation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  /// An operation under way.
  private struct Call {
    let start = ContinuousClock.now
    let limit: Duration?
    /// Whether its time began with the call.
    let isFromCall: Bool
    var isCancelled = false
  }

  private struct Read {
    var call: Call
    let kind: ReadKind
    let count: Int
    /// The first read whose result was not known to the test when this one was called.
    let firstBefore: Int
  }

  private enum Fate: UInt8 { case written, nothingSent, unknown }

  private var reads: [Read] = []
  /// The number of the first of them.
  private var firstRead = 0
  private var lastFailedRead = -1
  /// When a read failed last.
  private var lastFailure: ContinuousClock.Instant?
  /// The number of bytes that the reads have consumed.
  private var position = 0
  private var writes: [Call] = []
  private var fates: [Fate] = []
  /// Whether the connection was ended while operations waited.
  var hasEnded = false

  // MARK: Operations

  mutating func beganRead(_ kind: ReadKind, _ count: Int, _ limit: Duration?, isFromCall: Bool) {
    reads.append(
      Read(call: Call(limit: limit, isFromCall: isFromCall), kind: kind, count: count, firstBefore: firstRead))
  }

  /// - Returns: The number of the write.
  mutating func beganWrite(_ limit: Duration?, isFromCall: Bool) -> Int {
    writes.append(Call(limit: limit, isFromCall: isFromCall))
    return fates.count + writes.count - 1
  }

  /// Notes that the operation at an index of those under way was cancelled.
  mutating func cancelled(_ index: Int, isRead: Bool) {
    if isRead { reads[index].call.isCancelled = true } else { writes[index].isCancelled = true }
  }

  /// Checks the result of the first read under way.
  mutating func ended(read result: OperationResult) throws {
    let read = reads.removeFirst()
    let number = firstRead
    firstRead += 1
    switch result.result {
    case .success(let bytes):
      try checkTime(read.call, result.end, "read \(number)")
      try check(bytes, of: read, number)
    case .failure(let error):
      let lastFailed = self.lastFailedRead
      lastFailedRead = number
      lastFailure = max(lastFailure ?? result.end, result.end)
      if hasEnded { return }
      let code = (error as? SocketError)?.code
      let hasCause =
        switch code {
        case .precedingReadFailed: read.kind == .enqueued && lastFailed >= read.firstBefore
        case .limitExceeded: read.kind == .line
        default: isCaused(error, read.call, result.end)
        }
      if !hasCause { throw Violation("read \(number), \(read), failed without a cause: \(error)") }
    }
  }

  /// Takes bytes that were read after all operations.
  mutating func take(_ bytes: [UInt8]) throws {
    if bytes != Self.stream(bytes.count, from: position) { throw Violation("the rest is wrong, at \(position)") }
    position += bytes.count
  }

  /// Checks the result of the first write under way.
  mutating func ended(write result: OperationResult) throws {
    let call = writes.removeFirst()
    let number = fates.count
    switch result.result {
    case .success:
      fates.append(.written)
      try checkTime(call, result.end, "write \(number)")
    case .failure(let error):
      let failure = error as? SocketError
      fates.append(failure?.bytesTransferred == 0 ? .nothingSent : .unknown)
      if hasEnded { return }
      if failure?.code != .limitExceeded, !isCaused(error, call, result.end) {
        throw Violation("write \(number), \(call), failed without a cause: \(error)")
      }
    }
  }

  /// Checks the messages that the peer received. With `isWhole`, everything that was written has to be among them.
  func check(_ arrived: QueuePeer.Arrived, isWhole: Bool) throws {
    var next = 0
    for id in arrived.messages {
      if id < next { throw Violation("message \(id) arrives behind \(next - 1)") }
      if isWhole { try checkMissing(next..<id) }
      if fates[id] == .nothingSent { throw Violation("message \(id) arrives, but its write said that it sent nothing") }
      next = id + 1
    }
    if isWhole { try checkMissing(next..<fates.count) }
    if isWhole, arrived.isCut { throw Violation("the last message is cut off") }
  }

  // MARK: Rules

  private mutating func check(_ bytes: [UInt8], of read: Read, _ number: Int) throws {
    if bytes != Self.stream(bytes.count, from: position) {
      throw Violation("read \(number) has wrong bytes at \(position)")
    }
    let isRight =
      switch read.kind {
      case .exactly, .into, .enqueued: bytes.count == read.count
      case .available, .peek: bytes.count <= read.count && (hasEnded || !bytes.isEmpty)
      case .line: bytes.count <= 4 * read.count && bytes.firstIndex(of: 10) == bytes.count - 1
      }
    if !isRight { throw Violation("read \(number), \(read), has \(bytes.count) bytes") }
    if read.kind == .enqueued, let lastFailure, lastFailure > read.call.start {
      throw Violation("read \(number), \(read), succeeded behind one that failed")
    }
    if read.kind != .peek { position += bytes.count }
  }

  private func checkTime(_ call: Call, _ end: ContinuousClock.Instant, _ what: String) throws {
    if call.isFromCall, let limit = call.limit, end > call.start + limit {
      throw Violation("\(what), \(call), succeeded \(end - call.start) after its call")
    }
  }

  /// Whether an operation fails with this error because of what the test did with it.
  private func isCaused(_ error: any Error, _ call: Call, _ end: ContinuousClock.Instant) -> Bool {
    if error is CancellationError { return call.isCancelled }
    guard let limit = call.limit, (error as? SocketError)?.code == .timedOut else { return false }
    return end >= call.start + limit
  }

  private func checkMissing(_ ids: Range<Int>) throws {
    if let id = ids.first(where: { fates[$0] == .written }) { throw Violation("message \(id) was lost") }
  }

  // MARK: Bytes

  /// Bytes of the stream.
  static func stream(_ count: Int, from start: Int) -> [UInt8] {
    (start..<start + count).map { UInt8(truncatingIfNeeded: UInt64($0) &* 0x9e37_79b9_7f4a_7c15 >> 40) }
  }

  /// A message that begins with its number and its length.
  static func message(_ id: Int, _ count: Int) -> [UInt8] {
    [id >> 16, id >> 8, id, count >> 16, count >> 8, count].map { UInt8(truncatingIfNeeded: $0) }
      + stream(count, from: id)
  }

  /// The number and the length of a message, from its first six bytes.
  static func parse(_ header: [UInt8]) -> (id: Int, count: Int) {
    let number = header.reduce(0) { $0 << 8 | Int($1) }
    return (number >> 24, number & 0xff_ffff)
  }
}
