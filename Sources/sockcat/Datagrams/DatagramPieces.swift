/// Divides input into datagrams. The input arrives in parts of any size.
struct DatagramPieces {
  /// The most bytes of a datagram that are accepted here. A datagram over IP can have a few bytes less.
  static let maximumLength = 65_535

  private let isWhole: Bool
  /// The input that does not form a complete datagram yet. Invariant: it has at most `maximumLength` bytes.
  private var rest: [UInt8] = []

  init(isWhole: Bool) { self.isWhole = isWhole }

  /// Adds a part of the input.
  ///
  /// - Returns: The datagrams that are complete now.
  /// - Throws: `Failure` if a datagram would be longer than any datagram can be.
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

  /// Returns the last datagram at the end of the input: a line without a newline, or the whole input, which may be
  /// empty. Returns `nil` if nothing is left.
  func finish() -> [UInt8]? { rest.isEmpty && !isWhole ? nil : rest }

  private mutating func append(_ more: ArraySlice<UInt8>) throws(Failure) {
    assert(rest.count <= Self.maximumLength)
    rest += more
    if rest.count <= Self.maximumLength { return }
    let what = isWhole ? "the input" : "a line"
    throw Failure(.inputOutput, "\(what) is longer than a datagram can be: more than \(Self.maximumLength) bytes")
  }
}
