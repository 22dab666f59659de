import Glibc

/// Memory to receive into before the number of bytes is known. Only one thread uses it. A plain array would be equally safe, but each use
/// of it costs a check.
@safe package final class ScratchMemory {
  // SAFETY (here and below): allocated by `init`, freed once by `deinit`, and lent to calls only; counts are checked.
  private let memory: UnsafeMutableRawBufferPointer

  package init(count: Int) {
    // SAFETY: fresh memory of that size, all of which is initialised.
    unsafe memory = .allocate(byteCount: count, alignment: 64)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
  }

  // SAFETY: no other code has the memory after the last reference is released.
  deinit { unsafe memory.deallocate() }

  // SAFETY: no memory is touched.
  package var count: Int { unsafe memory.count }

  /// Receives to the start of the memory: recv(2).
  package func receive(from socket: BorrowedDescriptor, atMost limit: Int) -> Transfer {
    // SAFETY: the memory lives as long as this value, so for the call.
    unsafe socket.receive(into: UnsafeMutableRawBufferPointer(rebasing: memory.prefix(limit)))
  }

  /// Appends a copy of exactly the received bytes: recv(2).
  package func receive(from socket: BorrowedDescriptor, appendingTo bytes: inout [UInt8]) -> Transfer {
    // SAFETY: the memory lives as long as this value, so for the call.
    let result = unsafe socket.receive(into: memory)
    guard case .bytes(let count) = result, count > 0 else { return result }
    // SAFETY: initialised bytes.
    let received = unsafe UnsafeRawBufferPointer(start: memory.baseAddress, count: min(count, memory.count))
    // An empty array would grow, which takes more instructions than a new one.
    if bytes.isEmpty { bytes = unsafe [UInt8](received) } else { unsafe bytes.append(contentsOf: received) }
    return result
  }

  // SAFETY: as above.
  package func receive(from socket: BorrowedDescriptor, _ inbox: DescriptorInbox) -> Transfer {
    unsafe inbox.receive(from: socket, into: memory)
  }

  package func withBytes<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    assert((0...self.count).contains(count), "more bytes than there is memory")
    // SAFETY: initialised bytes, which the closure cannot keep.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory.prefix(count)).assumingMemoryBound(to: UInt8.self)
    return try body(unsafe Span(_unsafeElements: bytes))
  }
}
