/// The input arrives in parts of any size.
struct DatagramPieces {
  /// The most bytes that are accepted here. A datagram over IP can have a few bytes less.
  static let maximumLength = 65_535

  private let isWhole: Bool
  /// The input that does not form a complete datagram yet. Invariant: it has at most `maximumLength` bytes.
  private var rest: [UInt8] = []

  init(isWhole: Bool) { self.isWhole = isWhole }

  /// Returns the datagrams that are complete now.
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

  /// Returns the last line, if it has no newline, or the whole input, which may be empty.
  func finish() -> [UInt8]? { rest.isEmpty && !isWhole ? nil : rest }

  private mutating func append(_ more: ArraySlice<UInt8>) throws(Failure) {
    assert(rest.count <= Self.maximumLength)
    rest += more
    if rest.count <= Self.maximumLength { return }
    let what = isWhole ? "the input" : "a line"
    throw Failure(.inputOutput, "\(what) is longer than a datagram can be: more than \(Self.maximumLength) bytes")
  }
}
