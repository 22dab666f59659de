internal import CLinux
import Glibc

extension Span where Element == UInt8 {
  /// Returns the index of the first `byte` at or after `start`: memchr(3).
  ///
  /// - Parameters:
  ///   - byte: The byte to search for.
  ///   - start: The index of the first byte to look at. Negative numbers count as zero.
  /// - Returns: The index, or `nil` if there is no such byte.
  public func firstIndex(of byte: UInt8, from start: Int = 0) -> Int? {
    let start = Swift.max(0, start)
    // SAFETY: the search stays between `start` and the count, and the pointer found is into the same memory.
    return unsafe withUnsafeBytes { memory -> Int? in
      guard start < memory.count, let base = memory.baseAddress else { return nil }
      guard let found = unsafe memchr(base + start, Int32(byte), memory.count - start) else { return nil }
      return unsafe UnsafeRawPointer(found) - base
    }
  }

  /// Returns the index at which the first `needle` at or after `start` begins: memmem(3).
  ///
  /// - Parameters:
  ///   - needle: The bytes to search for.
  ///   - start: The index of the first byte to look at. Negative numbers count as zero.
  /// - Returns: The index, or `nil` if the bytes do not occur.
  public func firstIndex(of needle: [UInt8], from start: Int = 0) -> Int? {
    if needle.count == 1 { return firstIndex(of: needle[0], from: start) }
    let start = Swift.max(0, start)
    // SAFETY: as above; `needle` is valid for its count during the call.
    return unsafe withUnsafeBufferPointer { memory -> Int? in
      guard start < memory.count, let base = memory.baseAddress else { return nil }
      return unsafe needle.withUnsafeBufferPointer { wanted -> Int? in
        guard let pattern = wanted.baseAddress,
          let found = unsafe clinux_memmem(base + start, UInt(memory.count - start), pattern, UInt(wanted.count))
        else { return nil }
        return unsafe found - base
      }
    }
  }
}

extension [UInt8] {
  /// Creates an array with a copy of a span's bytes.
  ///
  /// - Parameter bytes: The bytes to copy. The span may be empty.
  public init(copying bytes: Span<UInt8>) {
    // SAFETY: the pointer is valid for the span's count during the copy.
    self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
  }

  /// Appends a copy of a span's bytes.
  ///
  /// - Parameter bytes: The bytes to copy. The span may be empty.
  public mutating func append(copying bytes: Span<UInt8>) {
    // SAFETY: the pointer is valid for the span's count during the copy.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }
}
