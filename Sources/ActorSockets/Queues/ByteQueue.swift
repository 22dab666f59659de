internal import SocketSystem

/// Bytes that arrived and that nobody has taken yet: in at the end, out at the front.
///
/// Invariants:
/// - `head <= storage.count`; the bytes are `storage[head...]`.
/// - Bytes that arrive when it is empty are copied once; if they are then taken as a whole, the very array is handed
///   out. This is the way of every read of "what there is".
/// - An empty queue keeps no large array: an idle connection costs next to nothing.
package struct ByteQueue {
  @usableFromInline var storage: [UInt8] = []
  @usableFromInline var head = 0

  /// Room that an empty queue may keep.
  private static let keptCapacity = 512
  /// Room that is worth giving back when most of it lies idle.
  private static let largeCapacity = 16_384

  package init() {}

  /// The number of bytes.
  @inlinable package var count: Int { storage.count - head }
  /// Whether there are none.
  @inlinable package var isEmpty: Bool { storage.count == head }

  /// Adds bytes at the end.
  package mutating func append(_ bytes: Span<UInt8>) {
    makeRoom()
    storage.append(copying: bytes)
  }

  /// Lets `receive` append to the bytes directly.
  package mutating func append<Result>(_ receive: (inout [UInt8]) -> Result) -> Result {
    makeRoom()
    return receive(&storage)
  }

  /// Gives room back that was made for more than came: more than half of it.
  mutating func fit() {
    if head == 0, storage.count < storage.capacity / 2 { storage = [UInt8](copying: storage.span) }
  }

  /// Takes the first `length` bytes out; there must be as many.
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

  /// Drops the first `length` bytes; there must be as many.
  package mutating func drop(_ length: Int) {
    head += length
    if head < storage.count {
      // A few bytes do not keep the large array in which they came.
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

  /// The byte at `index`, counted from the front.
  package subscript(index: Int) -> UInt8 { storage[head + index] }

  /// The bytes from the front to `end`, copied.
  package func prefix(_ end: Int) -> ArraySlice<UInt8> { storage[head..<head + min(end, count)] }

  /// Shows all bytes.
  package func withBytes<Result>(_ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    try body(storage.span.extracting(head..<storage.count))
  }

  /// The index of the first `needle` that begins at or after `start` and ends before `end`.
  package func firstIndex(of needle: [UInt8], from start: Int, before end: Int) -> Int? {
    let span = storage.span.extracting(head..<head + min(end, count))
    return span.firstIndex(of: needle, from: max(0, start))
  }

  /// Moves the bytes to the front before more than half of the array lies idle.
  private mutating func makeRoom() {
    if head > 0, head >= storage.count - head {
      storage.removeSubrange(0..<head)
      head = 0
    }
  }
}
