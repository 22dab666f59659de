import Glibc

/// Memory to receive into before it is known how much there is.
///
/// It is received into and read by one thread. A plain array would be as safe, but costs a check at every use.
@safe package final class ScratchMemory {
  // SAFETY (here and below): allocated by `init`, freed once by `deinit`, and lent to calls only; counts are checked.
  private let memory: UnsafeMutableRawBufferPointer

  /// So many bytes, zeroed.
  package init(count: Int) {
    // SAFETY: fresh memory of that size, all of which is initialised.
    unsafe memory = .allocate(byteCount: count, alignment: 64)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
  }

  // SAFETY: the only owner is gone.
  deinit { unsafe memory.deallocate() }

  /// The number of bytes.
  // SAFETY: no memory is touched.
  package var count: Int { unsafe memory.count }

  /// recv(2) of at most so many bytes into the front.
  package func receive(from socket: Socket, atMost limit: Int) -> Transfer {
    // SAFETY: the memory lives as long as this value, so for the call.
    unsafe socket.receive(into: UnsafeMutableRawBufferPointer(rebasing: memory.prefix(limit)))
  }

  /// recvmsg(2) into the front; descriptors that come along go to the inbox.
  // SAFETY: as above.
  package func receive(from socket: Socket, _ inbox: DescriptorInbox) -> Transfer {
    unsafe inbox.receive(from: socket, into: memory)
  }

  /// Shows the first `count` bytes.
  package func withBytes<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    // SAFETY: initialised bytes, which the closure cannot keep.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory.prefix(count)).assumingMemoryBound(to: UInt8.self)
    return try body(unsafe Span(_unsafeElements: bytes))
  }
}
