internal import SocketSystem

/// Bytes that were received and not read yet. They are added at the end and taken from the front.
///
/// Invariants:
/// - `head <= storage.count`; the bytes are `storage[head...]`.
/// - Bytes that arrive in an empty queue are copied once. If all of them are then taken together, the array itself is returned
///   without another copy. Reads of the available bytes always take this path.
/// - An empty queue keeps no large array, so that an idle connection needs little memory.
package struct ByteQueue {
  @usableFromInline var storage: [UInt8] = []
  @usableFromInline var head = 0

  private static let keptCapacity = 512
  private static let largeCapacity = 16_384

  package init() {}

  @inlinable package var count: Int { storage.count - head }
  @inlinable package var isEmpty: Bool { storage.count == head }

  package mutating func append(_ bytes: Span<UInt8>) {
    makeRoom()
    storage.append(copying: bytes)
  }

  @inline(__always)
  package mutating func append<Result>(_ receive: (inout [UInt8]) -> Result) -> Result {
    makeRoom()
    return receive(&storage)
  }

  mutating func fit() {
    if head == 0, storage.count < storage.capacity / 2 { storage = [UInt8](copying: storage.span) }
  }

  /// The queue must hold at least `length` bytes.
  package mutating func take(_ length: Int) -> [UInt8] {
    if head == 0, length == storage.count {
      var taken: [UInt8] = []
      swap(&taken, &storage)
      return taken
    }
    let taken = Array(storage[head..<head + length])
    drop(length)
    return taken
  }

  package mutating func drop(_ length: Int) {
    assert(0 <= length && length <= count, "more bytes are dropped than there are")
    head += length
    if head < storage.count {
      // A few remaining bytes must not keep a large array alive.
      if storage.capacity > Self.largeCapacity, count < storage.capacity / 8 {
        storage = Array(storage[head...])
        head = 0
      }
      return
    }
    head = 0
    if storage.capacity > Self.keptCapacity {
      storage = []
    } else {
      storage.removeAll(keepingCapacity: true)
    }
  }

  /// Releases nothing: only for a copy that is looked at.
  mutating func skip(_ length: Int) {
    assert(0 <= length && length <= count, "more bytes are skipped than there are")
    head += length
  }

  func copy(_ range: Range<Int>) -> [UInt8] { Array(storage[head + range.lowerBound..<head + range.upperBound]) }

  package subscript(index: Int) -> UInt8 { storage[head + index] }

  package func prefix(_ end: Int) -> ArraySlice<UInt8> { storage[head..<head + min(end, count)] }

  package func withBytes<Result>(_ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    try body(storage.span.extracting(head..<storage.count))
  }

  /// Returns the index of the first `needle` that begins at or after `start` and ends before `end`.
  package func firstIndex(of needle: [UInt8], from start: Int, before end: Int) -> Int? {
    let span = storage.span.extracting(head..<head + min(end, count))
    return span.firstIndex(of: needle, from: max(0, start))
  }

  private mutating func makeRoom() {
    if head > 0, head >= storage.count - head {
      storage.removeSubrange(0..<head)
      head = 0
    }
  }
}
