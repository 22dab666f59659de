// Inlinable, so that other modules have specialized copies: otherwise a message with a length prefix takes 5,000 instructions more.

extension FixedWidthInteger {
  @inlinable package var bigEndianBytes: [UInt8] {
    (0..<Self.bitWidth / 8).reversed().map { UInt8(truncatingIfNeeded: self >> Self(8 * $0)) }
  }

  /// If there are more bytes than fit, only the last ones count.
  @inlinable package init(bigEndianBytes bytes: some Sequence<UInt8>) {
    self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
  }
}
