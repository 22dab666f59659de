internal import SocketSystem

/// A hash of what has happened, in its order. It depends on nothing but that, so it is the same in every process.
struct TraceHash {
  private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  mutating func mix(_ word: UInt64) {
    // The end of SplitMix64 (Steele, Lea and Flood 2014): each bit of a word changes about half of the bits, so changes of two words do not
    // cancel out.
    value = (value ^ word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    value ^= value >> 31
  }

  mutating func mix(_ bytes: Span<UInt8>) {
    mix(UInt64(bytes.count))
    var word: UInt64 = 0
    for index in bytes.indices {
      word = word << 8 | UInt64(bytes[index])
      if index & 7 == 7 { mix(word) }
    }
    // The bytes of the last words that are not full, and some that were mixed before.
    if bytes.count & 7 != 0 { mix(word) }
  }

  mutating func mix(_ address: SocketAddress) {
    switch address {
    case .ipv4(let address, let port): mix(UInt64(address.rawValue) << 16 | UInt64(port))
    case .ipv6(let address, let port):
      for part in [address.high, address.low, UInt64(address.scopeID) << 16 | UInt64(port)] { mix(part) }
    case .unix(let path): mix(path.bytes.span)
    }
  }
}
