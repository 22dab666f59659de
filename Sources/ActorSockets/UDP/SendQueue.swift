internal import SocketSystem

// What waits to be sent by an endpoint: a pure state machine. It knows neither sockets nor clocks.
//
// An entry is one call: one or several datagrams, a datagram for a name that is being looked up, or a change of the peer.
//
//                  resolve
//   looking up ────────────▶ ready ──▶ (each of its datagrams sent or failed) ──▶ done
//
// Invariants:
// - Entries finish in the order in which they were admitted. An entry whose name is not resolved yet holds up later entries. If
//   its timeout starts with the operation, the time starts when the entry becomes the first.
// - If a datagram cannot be sent, only that datagram fails. Its error is kept until its entry is done.
// - Removing an entry removes the datagrams that are not sent yet. A datagram is never partly sent.
// - Each entry leaves exactly once: by `finish`, or by `remove`.

/// The queue of an endpoint's sends. `Tag` identifies the caller.
struct SendQueue<Tag> {
  /// What an entry does.
  enum Content {
    /// Send these datagrams.
    case datagrams([Datagram])
    /// Send this datagram to an address that is being looked up.
    case lookingUp(Datagram)
    /// Connect to another peer, whose address is being looked up.
    case lookingUpPeer
    /// Connect to another peer, at one of these addresses.
    case peer([SocketAddress])
    /// Fail: there is no address.
    case failed(SocketError)
  }

  /// The next step.
  enum Step {
    /// Nothing to do until something changes.
    case idle
    /// An entry became the first in the queue, and its time starts.
    case begin(UInt64, Tag)
    /// Send the datagrams that `unsent` returns, then call `sent` or `failed`.
    case send
    /// Connect to one of these addresses, then call `connected`.
    case connect([SocketAddress])
    /// An entry is done.
    case finish(Tag, Result<Void, any Error>)
  }

  private struct Entry: Identified {
    let id: UInt64
    let tag: Tag
    var content: Content
    /// Its failures are reported as those of a batch, even if it has only one datagram.
    let isBatch: Bool
    var hasBegun = false
    /// The number of datagrams that were sent or have failed.
    var done = 0
    var failures: [DatagramBatchError.Failure] = []

    /// The bytes of the datagrams that were not sent and have not failed.
    var unsentBytes: Int {
      guard case .datagrams(let datagrams) = content else { return content.bytes }
      return datagrams[done...].reduce(0) { $0 + $1.bytes.count }
    }
  }

  private var entries = FIFO<Entry>()
  private var nextID: UInt64 = 0
  /// The number of bytes that wait.
  private(set) var queuedBytes = 0

  var isEmpty: Bool { entries.isEmpty }
  /// The number of entries that wait.
  var count: Int { entries.count }
  /// The number of the first entry.
  var firstID: UInt64? { entries.first?.id }
  /// Whether datagrams of the first entry were sent or have failed.
  var firstIsUnderWay: Bool { (entries.first?.done ?? 0) > 0 }
  /// Returns the tag of an entry.
  func tag(of id: UInt64) -> Tag? { entries.index(of: id).map { entries[$0].tag } }

  /// Returns where the next datagram of an entry goes; `nil` if that is not known.
  func destination(of id: UInt64) -> SocketAddress? {
    guard let index = entries.index(of: id) else { return nil }
    return switch entries[index].content {
    case .datagrams(let datagrams): datagrams.dropFirst(entries[index].done).first?.remoteAddress
    case .peer(let addresses): addresses.first
    case .lookingUp, .lookingUpPeer, .failed: nil
    }
  }

  /// Adds an entry to the end of the queue.
  ///
  /// - Returns: The number of the entry.
  mutating func admit(_ content: Content, isBatch: Bool = false, _ tag: Tag) -> UInt64 {
    nextID += 1
    entries.append(Entry(id: nextID, tag: tag, content: content, isBatch: isBatch))
    queuedBytes += content.bytes
    assertInvariants()
    return nextID
  }

  /// Takes the result of a look-up. Does nothing if the entry was removed.
  mutating func resolve(_ id: UInt64, _ addresses: Result<[SocketAddress], SocketError>) {
    guard let index = entries.index(of: id) else { return }
    entries.change(index) { entry in
      switch (entry.content, addresses) {
      case (.lookingUp(var datagram), .success(let addresses)):
        datagram.remoteAddress = addresses.first
        entry.content = .datagrams([datagram])
      case (.lookingUpPeer, .success(let addresses)): entry.content = .peer(addresses)
      case (.lookingUp(let datagram), .failure(let error)):
        queuedBytes -= datagram.bytes.count
        entry.content = .failed(error)
      case (.lookingUpPeer, .failure(let error)): entry.content = .failed(error)
      default: break
      }
    }
  }

  /// Returns the datagram of an entry whose name is being looked up.
  func datagram(ofName id: UInt64) -> Datagram? {
    guard let index = entries.index(of: id), case .lookingUp(let datagram) = entries[index].content else { return nil }
    return datagram
  }

  /// Sets the datagram to send once the name is known; `nil` if a filter dropped it.
  mutating func resolve(_ id: UInt64, to datagram: Datagram?) {
    guard let index = entries.index(of: id) else { return }
    let old = entries[index].content.bytes
    entries.change(index) { $0.content = .datagrams(datagram.map { [$0] } ?? []) }
    queuedBytes += entries[index].content.bytes - old
  }

  /// Returns the next step. The caller must carry it out before it asks again.
  mutating func step() -> Step {
    guard let first = entries.first else { return .idle }
    if !first.hasBegun {
      entries.change(entries.startIndex) { $0.hasBegun = true }
      return .begin(first.id, first.tag)
    }
    switch first.content {
    case .lookingUp, .lookingUpPeer: return .idle
    case .peer(let addresses): return .connect(addresses)
    case .failed(let error): return finish(.failure(error))
    case .datagrams(let datagrams):
      if first.done < datagrams.count { return .send }
      if first.failures.isEmpty { return finish(.success(())) }
      if !first.isBatch { return finish(.failure(first.failures[0].error)) }
      return finish(
        .failure(DatagramBatchError(sent: first.done - first.failures.count, failures: first.failures)))
    }
  }

  private mutating func finish(_ result: Result<Void, any Error>) -> Step {
    guard let first = entries.popFirst() else { return .idle }
    return .finish(first.tag, result)
  }

  /// Returns the datagrams to send next, up to the first entry that needs another step.
  ///
  /// Mutating, so that nothing is copied.
  ///
  /// - Parameters:
  ///   - limit: The largest number of datagrams.
  ///   - mayBeSent: Whether an entry behind the first one may be sent now.
  /// - Returns: The datagrams.
  mutating func unsent(atMost limit: Int, where mayBeSent: (Tag) -> Bool = { _ in true }) -> ArraySlice<Datagram> {
    var unsent: ArraySlice<Datagram> = []
    var next = entries.firstIndex
    while let index = next, unsent.count < limit {
      next = entries.index(after: index)
      guard case .datagrams(let datagrams) = entries[index].content,
        index == entries.startIndex || mayBeSent(entries[index].tag)
      else { break }
      let these = datagrams[entries[index].done...].prefix(limit - unsent.count)
      if unsent.isEmpty { unsent = these } else { unsent += these }
    }
    return unsent
  }

  /// The first `count` datagrams were sent.
  mutating func sent(_ count: Int) {
    var left = count
    var next = entries.firstIndex
    while let index = next, left > 0 {
      next = entries.index(after: index)
      guard case .datagrams(let datagrams) = entries[index].content else { return }
      let these = min(left, datagrams.count - entries[index].done)
      let done = entries[index].done
      queuedBytes -= datagrams[done..<done + these].reduce(0) { $0 + $1.bytes.count }
      entries.change(index) { $0.done += these }
      left -= these
    }
    assert(left == 0, "more datagrams were sent than the queue has")
    assertInvariants()
  }

  /// The first datagram could not be sent.
  mutating func failed(_ error: SocketError) {
    var next = entries.firstIndex
    while let index = next {
      next = entries.index(after: index)
      guard case .datagrams(let datagrams) = entries[index].content else { return }
      let done = entries[index].done
      if done == datagrams.count { continue }
      queuedBytes -= datagrams[done].bytes.count
      entries.change(index) {
        $0.failures.append(DatagramBatchError.Failure(index: done, error: error))
        $0.done += 1
      }
      return assertInvariants()
    }
  }

  @inline(__always)
  private func assertInvariants() {
    // A long queue would make this check expensive.
    assert(
      entries.count > 4 || queuedBytes == entries.all.reduce(0) { $0 + $1.unsentBytes },
      "the number of queued bytes is wrong")
  }

  /// Connecting to another peer succeeded or failed.
  mutating func connected(_ outcome: Result<Void, SocketError>) {
    entries.change(entries.startIndex) {
      switch outcome {
      case .success: $0.content = .datagrams([])
      case .failure(let error): $0.content = .failed(error)
      }
    }
  }

  /// Removes an entry.
  ///
  /// - Returns: The tag of the entry and the number of its bytes that were sent; `nil` if there is no such entry.
  mutating func remove(_ id: UInt64) -> (tag: Tag, sentBytes: Int)? {
    guard let index = entries.index(of: id) else { return nil }
    let entry = entries.remove(at: index)
    guard case .datagrams(let datagrams) = entry.content else {
      queuedBytes -= entry.content.bytes
      return (entry.tag, 0)
    }
    queuedBytes -= entry.unsentBytes
    assertInvariants()
    let failed = Set(entry.failures.map(\.index))
    let sent = datagrams[..<entry.done].indices.reduce(0) {
      $0 + (failed.contains($1) ? 0 : datagrams[$1].bytes.count)
    }
    return (entry.tag, sent)
  }

  /// Removes all entries.
  mutating func removeAll() -> [Tag] {
    queuedBytes = 0
    var tags: [Tag] = []
    while let entry = entries.popFirst() { tags.append(entry.tag) }
    return tags
  }
}

extension SendQueue.Content {
  fileprivate var bytes: Int {
    switch self {
    case .datagrams(let datagrams): datagrams.reduce(0) { $0 + $1.bytes.count }
    case .lookingUp(let datagram): datagram.bytes.count
    case .lookingUpPeer, .peer, .failed: 0
    }
  }
}

/// An error for a batch of which some datagrams could not be sent. The other datagrams were sent.
public struct DatagramBatchError: Error, Sendable, CustomStringConvertible {
  /// A datagram that could not be sent.
  public struct Failure: Sendable {
    /// The index of the datagram in the array.
    public let index: Int
    /// Why it could not be sent.
    public let error: SocketError
  }

  /// The number of datagrams that were sent.
  public let sent: Int
  /// The datagrams that could not be sent, in order; at least one.
  public let failures: [Failure]

  /// Returns this error with indices of the array that the caller passed. `places` maps the indices of the filtered array to
  /// those; it is empty if there is no filter.
  func renumbered(_ places: [Int]) -> DatagramBatchError {
    if places.isEmpty { return self }
    let renumbered = failures.map { Failure(index: places[$0.index], error: $0.error) }
    return DatagramBatchError(sent: sent, failures: renumbered)
  }

  /// A description in one sentence, with the first failure.
  public var description: String {
    let first = failures.first.map { ": number \($0.index + 1), \($0.error)" } ?? ""
    return "\(failures.count) of \(failures.count + sent) datagrams could not be sent\(first)"
  }
}

extension SendQueue: LaneQueue {
  static var share: Share { Share(operations: 512) }
  /// An endpoint that ends takes all operations out of its queues at once.
  var isRefusing: Bool { false }
}
