import TestSupport

/// Changes bytes, or records among them.
struct Mutator {
  var random: SeededRandom

  mutating func changed(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...3, using: &random) where !bytes.isEmpty {
      switch Int.random(in: 0..<10, using: &random) {
      case 0, 1: bytes[place(bytes)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      case 2: bytes[place(bytes)] = [0, 1, 0x7f, 0x80, 0xff, 22, 23].randomElement(using: &random) ?? 0
      case 3: bytes.insert(contentsOf: noise(), at: place(bytes))
      case 4: bytes.removeSubrange(range(bytes))
      case 5: bytes.removeLast(bytes.count - place(bytes))
      case 6: bytes += bytes[range(bytes)]
      case 7: changeLength(&bytes)
      default: changeRecords(&bytes)
      }
    }
    return bytes
  }

  private mutating func place(_ bytes: [UInt8]) -> Int { Int.random(in: bytes.indices, using: &random) }

  private mutating func range(_ bytes: [UInt8]) -> Range<Int> {
    let start = place(bytes)
    return start..<min(bytes.count, start + Int.random(in: 1...32, using: &random))
  }

  private mutating func noise() -> [UInt8] {
    (0..<Int.random(in: 1...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  /// The length of a record or, if it is plain, of a message in it.
  private mutating func changeLength(_ bytes: inout [UInt8]) {
    guard let record = records(bytes).randomElement(using: &random), record.count > 9 else { return }
    let place = record.lowerBound + ([3, 4, 6, 7, 8].randomElement(using: &random) ?? 3)
    bytes[place] = UInt8.random(in: 0...255, using: &random)
  }

  /// Doubles, drops, swaps or splits a record, or puts another kind's before it.
  private mutating func changeRecords(_ bytes: inout [UInt8]) {
    var list = records(bytes).map { Array(bytes[$0]) }
    guard !list.isEmpty else { return }
    let index = Int.random(in: list.indices, using: &random)
    let other = Int.random(in: list.indices, using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0: list.insert(list[index], at: other)
    case 1: list.remove(at: index)
    case 2: list.swapAt(index, other)
    case 3: list[index][0] = UInt8.random(in: 19...25, using: &random)
    case 4:
      let contents = noise()
      list.insert([UInt8.random(in: 20...23, using: &random), 3, 3, 0, UInt8(contents.count)] + contents, at: index)
    default:
      // The same bytes in two records, which is right for messages of the handshake.
      let contents = list[index].dropFirst(5)
      guard contents.count > 1 else { break }
      let cut = Int.random(in: 1..<contents.count, using: &random)
      let header = Array(list[index].prefix(3))
      var halves: [UInt8] = []
      for part in [contents.prefix(cut), contents.dropFirst(cut)] {
        halves += header
        halves += [UInt8(part.count >> 8), UInt8(part.count & 0xff)]
        halves += part
      }
      list[index] = halves
    }
    bytes = list.flatMap { $0 }
  }

  private func records(_ bytes: [UInt8]) -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    var start = 0
    while start + 5 <= bytes.count {
      let end = min(bytes.count, start + 5 + Int(bytes[start + 3]) << 8 + Int(bytes[start + 4]))
      ranges.append(start..<end)
      start = end
    }
    return ranges
  }
}
