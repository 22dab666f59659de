/// What a server that takes frames apart has seen of them: the answer by which the load generator checks every byte.
public struct Tally: Sendable {
  @usableFromInline var count: UInt64 = 0
  @usableFromInline var sum: UInt64 = 0

  /// Of nothing so far.
  public init() {}

  /// The answer.
  public var line: String { "\(count) \(sum)\n" }

  /// Counts a frame.
  @inlinable
  public mutating func add(_ bytes: Span<UInt8>) {
    for index in bytes.indices { sum &+= UInt64(bytes[unchecked: index]) }
    count += 1
  }
}
