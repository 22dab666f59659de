extension Int32 {
  package var kernelBytes: [UInt8] {
    // SAFETY: an integer's bytes are read while it lives.
    unsafe withUnsafeBytes(of: self) { unsafe Array($0) }
  }

  /// The kernel may have written a single byte.
  package init(kernelBytes bytes: [UInt8]) {
    var value: Int32 = 0
    if bytes.count < MemoryLayout<Int32>.size {
      value = Int32(bytes.first ?? 0)
    } else {
      // SAFETY: the copy is no longer than either side.
      unsafe withUnsafeMutableBytes(of: &value) { unsafe $0.copyBytes(from: bytes.prefix($0.count)) }
    }
    self = value
  }
}

extension SocketOption where Value == Bool {
  static func flag(_ name: String, _ option: KernelOption) -> Self {
    Self(name, option) {
      Int32($0 ? 1 : 0).kernelBytes
    } decode: {
      Int32(kernelBytes: $0) != 0
    }
  }
}

extension SocketOption where Value == Int {
  static func number(_ name: String, _ option: KernelOption, in range: ClosedRange<Int32> = 0...Int32.max) -> Self {
    Self(name, option) { value throws(SocketOptionError) in
      guard let number = Int32(exactly: value), range.contains(number) else {
        throw .outOfRange("\(value) is not between \(range.lowerBound) and \(range.upperBound)")
      }
      return number.kernelBytes
    } decode: {
      Int(Int32(kernelBytes: $0))
    }
  }
}

enum DurationUnit: Sendable {
  case seconds
  case milliseconds

  /// Rounded up.
  func count(_ duration: Duration, in range: ClosedRange<Int32>) throws(SocketOptionError) -> Int32 {
    // The comparison comes first, because `components` traps for durations beyond `Int64` seconds.
    if duration >= .zero, duration <= self.duration(range.upperBound) {
      let (seconds, attoseconds) = duration.components
      let perUnit: Int64 = self == .seconds ? 1_000_000_000_000_000_000 : 1_000_000_000_000_000
      let count = seconds * (1_000_000_000_000_000_000 / perUnit) + (attoseconds + perUnit - 1) / perUnit
      if let number = Int32(exactly: count), range.contains(number) { return number }
    }
    let unit = self == .seconds ? "s" : "ms"
    throw .outOfRange("\(duration) is not between \(range.lowerBound) and \(range.upperBound) \(unit)")
  }

  func duration(_ count: Int32) -> Duration { self == .seconds ? .seconds(count) : .milliseconds(count) }
}

extension SocketOption where Value == Duration {
  static func time(
    _ name: String, _ option: KernelOption, in range: ClosedRange<Int32>, _ unit: DurationUnit
  ) -> Self {
    Self(name, option) { value throws(SocketOptionError) in
      try unit.count(value, in: range).kernelBytes
    } decode: {
      unit.duration(Int32(kernelBytes: $0))
    }
  }
}

/// The name of an interface or of an algorithm. In the kernel it has 16 bytes, and a NUL ends it.
enum KernelName {
  static let size = 16

  static func encode(_ name: String) throws(SocketOptionError) -> [UInt8] {
    let bytes = Array(name.utf8)
    if bytes.isEmpty || bytes.count >= size || bytes.contains(0) {
      throw .outOfRange("\(AddressError.quote(name)) is no name of 1 to \(size - 1) bytes")
    }
    return bytes + [0]
  }

  static func decode(_ bytes: [UInt8]) -> String { String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
}
