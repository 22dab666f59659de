internal import SocketSystem

// What waits to be sent by an endpoint: a pure machine. It knows neither sockets nor clocks.
//
// An entry is a call: one or several datagrams, a datagram for a name that is being looked up, or a change of the peer.
//
//                  resolve
//   looking up ────────────▶ ready ──▶ (each of its datagrams sent or failed) ──▶ done
//
// Invariants:
// - Entries are done in the order in which they were admitted: one whose name is not known yet holds up those behind it,
//   and its time, if it starts with the operation, starts when it is the first.
// - A datagram that cannot be sent concerns no other one. Its error is kept until its entry is done.
// - An entry that is removed takes with it what is not sent; no datagram is ever half sent.
// - Each entry leaves once: by `finish`, or by `remove`.

/// The queue of an endpoint's sends. `Tag` is who wants them.
struct SendQueue<Tag> {
  /// What an entry is to do.
  enum Content {
    /// Send these.
    case datagrams([Datagram])
    /// Send this one, to an address that is being looked up.
    case lookingUp(Datagram)
    /// Get another peer, whose address is being looked up.
    case lookingUpPeer
    /// Get another peer, one of these.
    case peer([SocketAddress])
    /// There is no address.
    case failed(SocketError)
  }

  /// What to do next.
  enum Step {
    /// Nothing, until something changes.
    case idle
    /// An entry is the first now: its time starts.
    case begin(UInt64, Tag)
    /// Send what `unsent` gives, then say `sent` or `failed`.
    case send
    /// Connect to one of these, then say `connected`.
    case connect([SocketAddress])
    /// An entry is done.
    case finish(Tag, Result<Void, any Error>)
  }

  private struct Entry: Identified {
    let id: UInt64
    let tag: Tag
    var content: Content
    /// Its failures are those of a batch, also if it has one datagram only.
    let isBatch: Bool
    var hasBegun = false
    /// The datagrams that are sent, or have failed.
    var done = 0
    var failures: [DatagramBatchError.Failure] = []
  }

  private var entries = FIFO<Entry>()
  private var nextID: UInt64 = 0
  /// The bytes that wait.
  private(set) var queuedBytes = 0

  var isEmpty: Bool { entries.isEmpty }
  /// How many calls wait.
  var count: Int { entries.count }
  /// The number of the first entry.
  var firstID: UInt64? { entries.first?.id }
  /// Who wants an entry.
  func tag(of id: UInt64) -> Tag? { entries.index(of: id).map { entries[$0].tag } }

  /// Puts an entry at the end.
  ///
  /// - Returns: Its number.
  mutating func admit(_ content: Content, isBatch: Bool = false, _ tag: Tag) -> UInt64 {
    nextID += 1
    entries.append(Entry(id: nextID, tag: tag, content: content, isBatch: isBatch))
    queuedBytes += content.bytes
    return nextID
  }

  /// The addresses of an entry's name are known, or why there are none. One that was removed is no matter.
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

  /// The datagram of an entry whose name is being looked up.
  func datagram(ofName id: UInt64) -> Datagram? {
    guard let index = entries.index(of: id), case .lookingUp(let datagram) = entries[index].content else { return nil }
    return datagram
  }

  /// What is sent once the name is known; `nil` if a filter drops it.
  mutating func resolve(_ id: UInt64, to datagram: Datagram?) {
    guard let index = entries.index(of: id) else { return }
    let old = entries[index].content.bytes
    entries.change(index) { $0.content = .datagrams(datagram.map { [$0] } ?? []) }
    queuedBytes += entries[index].content.bytes - old
  }

  /// What to do next; to be carried out before it is asked again.
  mutating func step() -> Step {
    guard let first = entries.first else { return .idle }
    if !first.hasBegun {
      entries.change(0) { $0.hasBegun = true }
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

  /// The datagrams that are to be sent next, up to something else that has to be done before.
  ///
  /// Mutating, so that nothing is copied.
  mutating func unsent(atMost limit: Int) -> ArraySlice<Datagram> {
    var unsent: ArraySlice<Datagram> = []
    for index in 0..<entries.count where unsent.count < limit {
      guard case .datagrams(let datagrams) = entries[index].content else { break }
      let these = datagrams[entries[index].done...].prefix(limit - unsent.count)
      if unsent.isEmpty { unsent = these } else { unsent += these }
    }
    return unsent
  }

  /// So many of the first datagrams are sent.
  mutating func sent(_ count: Int) {
    var left = count
    for index in 0..<entries.count where left > 0 {
      guard case .datagrams(let datagrams) = entries[index].content else { return }
      let these = min(left, datagrams.count - entries[index].done)
      let done = entries[index].done
      queuedBytes -= datagrams[done..<done + these].reduce(0) { $0 + $1.bytes.count }
      entries.change(index) { $0.done += these }
      left -= these
    }
  }

  /// The first datagram cannot be sent.
  mutating func failed(_ error: SocketError) {
    for index in 0..<entries.count {
      guard case .datagrams(let datagrams) = entries[index].content else { return }
      let done = entries[index].done
      if done == datagrams.count { continue }
      queuedBytes -= datagrams[done].bytes.count
      entries.change(index) {
        $0.failures.append(DatagramBatchError.Failure(index: done, error: error))
        $0.done += 1
      }
      return
    }
  }

  /// There is another peer now, or there is not.
  mutating func connected(_ outcome: Result<Void, SocketError>) {
    entries.change(0) {
      switch outcome {
      case .success: $0.content = .datagrams([])
      case .failure(let error): $0.content = .failed(error)
      }
    }
  }

  /// Takes an entry out.
  ///
  /// - Returns: Who wanted it, and how many bytes of it are sent.
  mutating func remove(_ id: UInt64) -> (tag: Tag, sentBytes: Int)? {
    guard let index = entries.index(of: id) else { return nil }
    let entry = entries.remove(at: index)
    guard case .datagrams(let datagrams) = entry.content else {
      queuedBytes -= entry.content.bytes
      return (entry.tag, 0)
    }
    queuedBytes -= datagrams[entry.done...].reduce(0) { $0 + $1.bytes.count }
    let failed = Set(entry.failures.map(\.index))
    let sent = datagrams[..<entry.done].indices.reduce(0) {
      $0 + (failed.contains($1) ? 0 : datagrams[$1].bytes.count)
    }
    return (entry.tag, sent)
  }

  /// Takes all out.
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

/// Some of the datagrams of one `send` could not be sent; the others are.
public struct DatagramBatchError: Error, Sendable, CustomStringConvertible {
  /// One that could not be sent.
  public struct Failure: Sendable {
    /// Which one, by its place in the array.
    public let index: Int
    /// Why.
    public let error: SocketError
  }

  /// How many were sent.
  public let sent: Int
  /// The others, in order; at least one.
  public let failures: [Failure]

  /// The same of an array of which only the datagrams at these places were sent; of all of them if there are none.
  func renumbered(_ places: [Int]) -> DatagramBatchError {
    if places.isEmpty { return self }
    let renumbered = failures.map { Failure(index: places[$0.index], error: $0.error) }
    return DatagramBatchError(sent: sent, failures: renumbered)
  }

  /// One sentence, with the first failure.
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
