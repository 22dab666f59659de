extension FixedWidthInteger {
  /// The bytes in network byte order.
  package var bigEndianBytes: [UInt8] {
    (0..<Self.bitWidth / 8).reversed().map { UInt8(truncatingIfNeeded: self >> Self(8 * $0)) }
  }

  /// Creates an integer from bytes in network byte order. If there are more than fit, only the last ones count.
  package init(bigEndianBytes bytes: some Sequence<UInt8>) {
    self = bytes.reduce(0) { $0 << 8 | Self($1) }
  }
}
