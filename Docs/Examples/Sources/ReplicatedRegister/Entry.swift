import ByteText

/// A stored value, and how new it is.
///
/// A later write has a higher number. Writes at the same time may have the same number; then the client, and the count of the client's
/// writes, decide. So no two writes are equal, and all replicas agree which of two entries is newer.
struct Entry: Hashable, Sendable {
  var number: UInt64 = 0
  var client: UInt64 = 0
  var write: UInt64 = 0
  var value = ""

  /// What a register contains before the first write.
  static let nothing = Entry()
  /// The largest number of bytes of a value.
  static let longestValue = 1000
  /// The largest number of bytes of a line with an entry.
  static let longestLine = longestValue + 100
  /// Larger numbers are refused, so that the next one never overflows.
  private static let largestNumber: UInt64 = 1 << 62

  func isNewer(than other: Entry) -> Bool {
    (number, client, write) > (other.number, other.client, other.write)
  }

  /// Whether a value can be stored: it has to fit into a line.
  static func isSuitable(_ value: String) -> Bool {
    value.utf8.count <= longestValue && !value.utf8.contains { $0 == 10 || $0 == 13 }
  }
}

extension Entry: LosslessStringConvertible {
  /// The entry in the form of the protocol and of the file: `7 12 3 hello`.
  var description: String { "\(number) \(client) \(write) \(value)" }

  init?(_ text: String) {
    // As bytes, because a value may begin with an accent, which would be one character with the space before it.
    let parts = ByteText(text).parts(at: " ", maxSplits: 3).map(\.description)
    guard parts.count == 4, let number = UInt64(parts[0]), number <= Self.largestNumber, let client = UInt64(parts[1]),
      let write = UInt64(parts[2]), Self.isSuitable(parts[3])
    else { return nil }
    self.init(number: number, client: client, write: write, value: parts[3])
  }
}
