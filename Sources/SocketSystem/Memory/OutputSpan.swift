extension OutputSpan<UInt8> {
  /// Appends as many of the bytes as fit. Returns their number.
  @discardableResult
  package mutating func append(_ bytes: [UInt8], in range: Range<Int>) -> Int {
    let count = min(range.count, freeCapacity)
    // SAFETY: both ranges are inside their memory, and an array's memory is not that of an output span.
    unsafe withUnsafeMutableBufferPointer { memory, initialized in
      unsafe bytes.withUnsafeBytes { source in
        let target = UnsafeMutableRawBufferPointer(memory)
        unsafe UnsafeMutableRawBufferPointer(rebasing: target[initialized...]).copyMemory(
          from: UnsafeRawBufferPointer(rebasing: source[range.prefix(count)]))
      }
      initialized += count
    }
    return count
  }
}

/// Lets a call append to memory that is given as a pointer.
@inline(__always)
func appending<Result>(
  to memory: UnsafeMutableRawBufferPointer, _ call: (inout OutputSpan<UInt8>) -> Result
) -> Result {
  // SAFETY: the caller's memory is valid for its count during the call, and bytes need no initialisation.
  let bytes = unsafe memory.bindMemory(to: UInt8.self)
  var output = unsafe OutputSpan(buffer: bytes, initializedCount: 0)
  let result = call(&output)
  _ = unsafe output.finalize(for: bytes)
  return result
}
