internal import SocketSystem

/// Bytes in a socket buffer: appended at the end, dropped from the front.
struct ByteStore {
  private var bytes: [UInt8] = []
  private var head = 0

  var count: Int { bytes.count - head }
  var isEmpty: Bool { count == 0 }
  var capacity: Int { bytes.capacity }

  mutating func append(_ more: [UInt8]) { bytes += more }

  mutating func append(_ more: Span<UInt8>, atMost limit: Int) {
    // The array grows by itself: with an exact capacity, all bytes would move each time.
    for index in 0..<min(limit, more.count) { bytes.append(more[index]) }
  }

  func copy(_ range: Range<Int>) -> [UInt8] { Array(bytes[(head + range.lowerBound)..<(head + range.upperBound)]) }

  @discardableResult
  func copy(atMost limit: Int, to memory: inout OutputSpan<UInt8>) -> Int {
    memory.append(bytes, in: head..<(head + min(limit, count)))
  }

  mutating func drop(_ count: Int) {
    head += count
    if head == bytes.count {
      bytes.removeAll(keepingCapacity: head <= 65_536)
      head = 0
    } else if head >= 65_536, 2 * head >= bytes.count {
      bytes.removeSubrange(..<head)
      head = 0
    }
  }

  mutating func removeAll() {
    bytes = []
    head = 0
  }
}
