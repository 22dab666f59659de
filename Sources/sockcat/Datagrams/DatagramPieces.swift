/// Makes datagrams of input that comes in parts of any size.
struct DatagramPieces {
  /// The most bytes that are kept; a datagram over IP has a few less.
  static let maximumLength = 65_535

  private let isWhole: Bool
  /// What has no end yet.
  private var rest: [UInt8] = []

  init(isWhole: Bool) { self.isWhole = isWhole }

  /// Takes input.
  ///
  /// - Returns: What is complete now.
  /// - Throws: A `Failure` when a datagram would be longer than any can be.
  mutating func add(_ bytes: [UInt8]) throws(Failure) -> [[UInt8]] {
    var lines = isWhole ? [bytes[...]] : bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let last = lines.removeLast()
    var complete: [[UInt8]] = []
    for line in lines {
      try append(line)
      complete.append(rest)
      rest = []
    }
    try append(last)
    return complete
  }

  /// What is left at the end of the input: a line that no newline ends; of the whole, even nothing.
  func finish() -> [UInt8]? { rest.isEmpty && !isWhole ? nil : rest }

  private mutating func append(_ more: ArraySlice<UInt8>) throws(Failure) {
    rest += more
    if rest.count <= Self.maximumLength { return }
    let what = isWhole ? "the input" : "a line"
    throw Failure(.inputOutput, "\(what) is longer than a datagram can be: more than \(Self.maximumLength) bytes")
  }
}
