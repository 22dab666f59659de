internal import CLinux
import Glibc

extension Span where Element == UInt8 {
  /// Returns the index of the first `byte` at or after `start`, or `nil` if there is none: memchr(3).
  package func firstIndex(of byte: UInt8, from start: Int) -> Int? {
    // SAFETY: the search stays between `start` and the count, and the pointer found is into the same memory.
    unsafe withUnsafeBytes { memory -> Int? in
      guard start < memory.count, let base = memory.baseAddress else { return nil }
      guard let found = unsafe memchr(base + start, Int32(byte), memory.count - start) else { return nil }
      return unsafe UnsafeRawPointer(found) - base
    }
  }

  /// Returns the index at which the first `needle` at or after `start` begins, or `nil` if there is none: memmem(3).
  package func firstIndex(of needle: [UInt8], from start: Int) -> Int? {
    if needle.count == 1 { return firstIndex(of: needle[0], from: start) }
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
