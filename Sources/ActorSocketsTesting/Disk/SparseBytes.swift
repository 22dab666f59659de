/// The contents of a file. Only blocks that were written take memory; all others are zeros.
struct SparseBytes {
  static let blockSize = 4_096
  private static let zeros = [UInt8](repeating: 0, count: blockSize)

  private(set) var count = 0
  private var blocks: [Int: [UInt8]] = [:]

  var blockCount: Int { blocks.count }

  /// The bytes of a range that may reach beyond the end.
  func bytes(in range: Range<Int>) -> [UInt8] {
    let range = range.clamped(to: 0..<count)
    var result: [UInt8] = []
    result.reserveCapacity(range.count)
    Self.forEachBlock(of: range) { index, part, _ in result += (blocks[index] ?? Self.zeros)[part] }
    return result
  }

  /// The number of blocks that `write` would add.
  func newBlocks(for range: Range<Int>) -> Int {
    var new = 0
    Self.forEachBlock(of: range) { index, _, _ in if blocks[index] == nil { new += 1 } }
    return new
  }

  mutating func write(_ bytes: ArraySlice<UInt8>, at offset: Int) {
    if bytes.isEmpty { return }
    Self.forEachBlock(of: offset..<(offset + bytes.count)) { index, part, done in
      let start = bytes.startIndex + done
      blocks[index, default: Self.zeros].replaceSubrange(part, with: bytes[start..<(start + part.count)])
    }
    count = max(count, offset + bytes.count)
  }

  /// New bytes are zeros.
  mutating func resize(to size: Int) {
    defer { count = size }
    if size >= count { return }
    let (last, rest) = size.quotientAndRemainder(dividingBy: Self.blockSize)
    for index in blocks.keys where index > last || index == last && rest == 0 { blocks[index] = nil }
    if blocks[last] != nil {
      blocks[last]?.replaceSubrange(rest..., with: Self.zeros[rest...])
    }
  }

  /// Calls `body` with the index of each block, the part of the block that is in the range, and how many bytes came before.
  private static func forEachBlock(of range: Range<Int>, _ body: (Int, Range<Int>, Int) -> Void) {
    var next = range.lowerBound
    while next < range.upperBound {
      let (index, start) = next.quotientAndRemainder(dividingBy: blockSize)
      let end = min(blockSize, start + range.upperBound - next)
      body(index, start..<end, next - range.lowerBound)
      next += end - start
    }
  }
}
