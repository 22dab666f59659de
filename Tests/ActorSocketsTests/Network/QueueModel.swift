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

struct OperationResult: Sendable {
  let result: Result<[UInt8], any Error>
  let end: ContinuousClock.Instant

  init(_ time: QueueTime, _ body: () async throws -> [UInt8]) async {
    do { result = .success(try await body()) } catch { result = .failure(error) }
    end = time.now()
  }
}

struct QueueModel {
  enum ReadKind: CaseIterable, Sendable {
    case exactly, into, available, line, peek, look, message, enqueued, enqueuedLine

    var isEnqueued: Bool { self == .enqueued || self == .enqueuedLine }
  }

  struct Violation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  private struct Call {
    let start: ContinuousClock.Instant
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

  private let time: QueueTime
  private var reads: [Read] = []
  private var firstRead = 0
  private var lastFailedRead = -1
  private var lastFailure: ContinuousClock.Instant?
  private var position = 0
  private var writes: [Call] = []
  private var fates: [Fate] = []
  var hasEnded = false

  init(_ time: QueueTime) { self.time = time }

  // MARK: Operations

  mutating func beganRead(_ kind: ReadKind, _ count: Int, _ limit: Duration?, isFromCall: Bool) {
    let call = Call(start: time.now(), limit: limit, isFromCall: isFromCall)
    reads.append(Read(call: call, kind: kind, count: count, firstBefore: firstRead))
  }

  mutating func beganWrite(_ limit: Duration?, isFromCall: Bool) -> Int {
    writes.append(Call(start: time.now(), limit: limit, isFromCall: isFromCall))
    return fates.count + writes.count - 1
  }

  mutating func cancelled(_ index: Int, isRead: Bool) {
    if isRead { reads[index].call.isCancelled = true } else { writes[index].isCancelled = true }
  }

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
        case .precedingReadFailed: read.kind.isEnqueued && lastFailed >= read.firstBefore
        case .limitExceeded: read.kind == .line || read.kind == .enqueuedLine
        default: isCaused(error, read.call, result.end)
        }
      if !hasCause { throw Violation("read \(number), \(read), failed without a cause: \(error)") }
    }
  }

  mutating func take(_ bytes: [UInt8]) throws {
    if bytes != Self.stream(bytes.count, from: position) { throw Violation("the rest is wrong, at \(position)") }
    position += bytes.count
  }

  mutating func ended(write result: OperationResult) throws {
    let call = writes.removeFirst()
    let number = fates.count
    switch result.result {
    case .success:
      fates.append(.written)
      try checkTime(call, result.end, "write \(number)")
    case .failure(let error):
      let failure = error as? SocketError
      // The rest of a write that timed out is sent, unless the connection ends.
      let isSent = failure?.code == .timedOut && !hasEnded
      fates.append(failure?.bytesTransferred == 0 ? .nothingSent : isSent ? .written : .unknown)
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
      case .look, .message: bytes.count == read.count || hasEnded && bytes.isEmpty
      case .available, .peek: bytes.count <= read.count && (hasEnded || !bytes.isEmpty)
      case .line, .enqueuedLine: bytes.count <= 4 * read.count && bytes.firstIndex(of: 10) == bytes.count - 1
      }
    if !isRight { throw Violation("read \(number), \(read), has \(bytes.count) bytes") }
    if time.isExact, read.kind.isEnqueued, let lastFailure, lastFailure > read.call.start {
      throw Violation("read \(number), \(read), succeeded behind one that failed")
    }
    if read.kind != .peek { position += bytes.count }
  }

  private func checkTime(_ call: Call, _ end: ContinuousClock.Instant, _ what: String) throws {
    if time.isExact, call.isFromCall, let limit = call.limit, end > call.start + limit {
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
