import SocketSystem
import TestSupport

extension SeededRandom {
  /// The text with up to two characters removed, inserted or replaced.
  mutating func mutated(_ text: String, alphabet: String) -> String {
    var characters = Array(text)
    for _ in 0..<Int.random(in: 0...2, using: &self) {
      let index = Int.random(in: 0...characters.count, using: &self)
      let removed = Int.random(in: 0...1, using: &self)
      let inserted = alphabet.randomElement(using: &self).map { [$0] } ?? []
      characters.replaceSubrange(
        index..<min(index + removed, characters.count), with: Bool.random(using: &self) ? inserted : [])
    }
    return String(characters)
  }

  /// An address in which zero groups, runs of them and the IPv4-mapped prefix are common.
  mutating func ipv6Address() -> IPv6Address? {
    let likelihood = Int.random(in: 1...4, using: &self)
    var bytes: [UInt8] = []
    for _ in 0..<8 {
      let digits = Int.random(in: 1...4, using: &self)
      let group = UInt16.random(in: 0...0xffff, using: &self) >> (16 - 4 * digits)
      let isZero = Int.random(in: 0...4, using: &self) < likelihood
      bytes += isZero ? [0, 0] : [UInt8(group >> 8), UInt8(group & 0xff)]
    }
    if Int.random(in: 0..<8, using: &self) == 0 {
      bytes.replaceSubrange(0..<12, with: [UInt8](repeating: 0, count: 10) + [0xff, 0xff])
    }
    return IPv6Address(bytes: bytes)
  }
}
