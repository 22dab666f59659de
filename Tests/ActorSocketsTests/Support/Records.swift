/// What tests of writes send: a record says its number and length, and then brings the pattern that follows from the number.
func record(_ number: Int, _ length: Int) -> [UInt8] {
  (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    + (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) } + pattern(length, from: number)
}

/// The records that have arrived.
struct Records: Sendable {
  /// In order.
  private(set) var numbers: [Int] = []
  private var isTorn = false
  private var rest: [UInt8] = []

  mutating func receive(_ bytes: ArraySlice<UInt8>) {
    rest += bytes
    var start = 0
    while !isTorn, rest.count - start >= 12 {
      let header = rest[start..<start + 12]
      let number = header.prefix(8).reduce(0) { $0 << 8 | Int($1) }
      let length = header.suffix(4).reduce(0) { $0 << 8 | Int($1) }
      if length > 100_000 {
        isTorn = true
        break
      }
      guard rest.count - start >= 12 + length else { break }
      if Array(rest[start + 12..<start + 12 + length]) != pattern(length, from: number) { isTorn = true }
      numbers.append(number)
      start += 12 + length
    }
    rest.removeFirst(start)
  }

  /// Nothing else has arrived, and no part of one.
  var isWhole: Bool { rest.isEmpty && !isTorn }
}
