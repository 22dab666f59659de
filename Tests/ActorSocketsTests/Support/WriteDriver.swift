import SocketSystem
import Testing

@testable import ActorSockets

/// Drives a write queue as a stream does, with a kernel that takes what it is told to take.
struct WriteDriver {
  struct Finished: Hashable {
    var tag: Int?
    /// `nil` for success, otherwise the bytes of which the error says that they were taken.
    var failedAfter: Int?
    init(_ tag: Int?, failedAfter: Int? = nil) {
      self.tag = tag
      self.failedAfter = failedAfter
    }
  }

  var queue = WriteQueue<Int>()
  var ids: [Int: UInt64] = [:]
  private(set) var begun: [Int?] = []
  private(set) var finished: [Finished] = []
  private(set) var taken: [UInt8] = []
  private(set) var passed: [(Int32, at: Int)] = []
  private(set) var sends = 0
  private(set) var isShutDown = false
  private(set) var neverRests = false
  var maximumPieces = 64
  var maximumBytes = 262_144

  /// Admits writes with the tags 1, 2, …
  init(isOpen: Bool = true, _ texts: String...) {
    if isOpen { queue.open() }
    for (index, text) in texts.enumerated() { admit(text, index + 1) }
  }

  var shown: [UInt8] {
    queue.withUnsent(maximumPieces: maximumPieces, maximumBytes: maximumBytes) { pieces, skipping in
      Array(pieces.joined().dropFirst(skipping))
    }
  }

  var shownPieces: [[UInt8]] {
    queue.withUnsent(maximumPieces: maximumPieces, maximumBytes: maximumBytes) { pieces, _ in Array(pieces) }
  }

  /// Does what the queue says, sending at most these numbers of bytes one after another; then the kernel is full.
  mutating func pump(_ room: [Int] = []) {
    var room = room[...]
    for _ in 0..<100_000 {
      switch queue.step() {
      case .idle: return
      case .begin(_, let tag): begun.append(tag)
      case .finish(let tag, .success), .acknowledge(_, let tag): finished.append(Finished(tag))
      case .finish(let tag, .failure(let error)):
        finished.append(Finished(tag, failedAfter: error.bytesTransferred))
      case .shutDown:
        isShutDown = true
        queue.finished()
      case .sendFile(_, let offset, let count):
        guard let limit = room.popFirst() else { return }
        // A file of the bytes 0, 1, 2 …
        taken += (offset..<offset + min(limit, count)).map { UInt8($0 & 255) }
        sends += 1
        queue.sent(min(limit, count))
      case .pass(let bytes, let descriptor):
        guard let limit = room.popFirst() else { return }
        passed.append((descriptor.descriptor.number, at: taken.count))
        taken += bytes.prefix(limit)
        sends += 1
        queue.passed()
        queue.sent(min(limit, bytes.count))
      case .send:
        guard let limit = room.popFirst() else { return }
        let bytes = shown
        if bytes.isEmpty { Issue.record("nothing is shown though there is something to send") }
        taken += bytes.prefix(limit)
        sends += 1
        queue.sent(min(limit, bytes.count))
      }
    }
    neverRests = true
  }

  mutating func admit(_ pieces: [[UInt8]], _ tag: Int?, alreadySent: Int = 0) {
    let id = queue.admit(.pieces(pieces), alreadySent: alreadySent, tag)
    if let tag { ids[tag] = id }
  }

  /// The kernel takes this number of the buffered bytes.
  mutating func sendBuffered(_ count: Int, isDone: Bool) {
    taken += queue.buffered.prefix(count)
    sends += 1
    queue.sentBuffered(count, isDone: isDone)
  }

  mutating func admit(_ text: String, _ tag: Int?) { admit([Array(text.utf8)], tag) }

  mutating func finishWriting(_ tag: Int?) {
    let id = queue.admit(.finish, tag)
    if let tag { ids[tag] = id }
  }

  mutating func flush(_ tag: Int?) {
    let id = queue.admit(.acknowledgement, tag)
    if let tag { ids[tag] = id }
  }

  mutating func sendFile(_ file: FileSource, _ range: Range<Int>, _ tag: Int?) {
    let id = queue.admit(.file(file, from: range.lowerBound, count: range.count), tag)
    if let tag { ids[tag] = id }
  }

  mutating func pass(_ text: String, _ descriptor: consuming OwnedDescriptor, _ tag: Int?) {
    let id = queue.admit(.passing(Array(text.utf8), PassedDescriptor(descriptor)), tag)
    if let tag { ids[tag] = id }
  }

  mutating func abandon(_ tag: Int) -> Bool { ids[tag].flatMap { queue.abandon($0) } != nil }

  mutating func remove(_ tag: Int) -> Int? { ids[tag].flatMap { queue.remove($0)?.sent } }

  var text: String { String(decoding: taken, as: UTF8.self) }
}
