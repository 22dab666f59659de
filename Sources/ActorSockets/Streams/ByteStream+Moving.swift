// Dropping unwanted bytes of a stream, and writing bytes into a stream from an asynchronous sequence. Each is a loop of plain reads or
// writes, one at a time: no bytes are collected beyond one chunk.

extension ByteStream {
  /// Reads a number of bytes and drops them, without holding them in memory.
  ///
  /// *Errors*: if the stream ends first, the call throws `.endOfStream`. ``SocketError/bytesTransferred`` of this error, and of a
  /// timeout, is the number of bytes that were dropped.
  ///
  /// *Cancellation* ends the call. The bytes that were dropped before are lost, and the others stay.
  ///
  /// *Ordering*: each chunk is one read, in order with the other reads.
  ///
  /// - Parameters:
  ///   - count: The number of bytes, at least 0.
  ///   - timeout: The longest time to wait for each chunk, or with ``Timeout/until(_:)`` for all of them. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func discard(exactly count: Int, timeout: Timeout? = nil) async throws {
    if count < 0 { throw SocketError.invalid("discard", "\(count) is not a number of bytes") }
    var left = count
    do {
      while left > 0 {
        let limit = left
        let dropped = try await withBytes(timeout: timeout) { bytes, consumed in
          consumed = min(limit, bytes.count)
          return consumed
        }
        guard let dropped else {
          try await checkEndIsOfPeer("discard")
          throw SocketError(.endOfStream, operation: "discard")
        }
        left -= dropped
      }
    } catch var error as SocketError where [.endOfStream, .timedOut].contains(error.code) {
      error.bytesTransferred = count - left
      throw error
    }
  }

  /// Writes the chunks of an asynchronous sequence, each as one write.
  ///
  /// The next chunk is requested when the write of the previous one has returned, so a slow peer slows down the sequence. The writing
  /// side stays open.
  ///
  /// *Errors*: ``SocketError/bytesTransferred`` of the error of a write is the number of bytes of all chunks that were written.
  ///
  /// *Cancellation* and timeouts end the call, and leave the write under way as ``write(_:timeout:progress:)`` describes: all earlier
  /// chunks are written, the later ones are not requested. `CancellationError` has no number of bytes. To know it, count the chunks as the
  /// sequence hands them out.
  ///
  /// *Ordering*: each chunk is one write, in order with the other writes.
  ///
  /// - Parameters:
  ///   - chunks: The chunks.
  ///   - timeout: The longest time that each write may take, or with ``Timeout/until(_:)`` all of them. `nil` means no limit.
  /// - Returns: The number of bytes written.
  /// - Throws: ``SocketError``, the error of the sequence, and `CancellationError` if the task is cancelled.
  @discardableResult
  public nonisolated(nonsending) func write<Chunks: AsyncSequence>(
    from chunks: Chunks, timeout: Timeout? = nil
  ) async throws -> Int where Chunks.Element: Sequence<UInt8> {
    try await write(each: chunks, timeout) { Array($0) }
  }

  /// Writes the texts of an asynchronous sequence as UTF-8, each as one write: see ``write(from:timeout:)-(Chunks,_)``. Nothing is
  /// written between two texts.
  ///
  /// Errors, *cancellation*, timeouts and *ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - texts: The texts.
  ///   - timeout: The longest time that each write may take, or with ``Timeout/until(_:)`` all of them. `nil` means no limit.
  /// - Returns: The number of bytes written.
  /// - Throws: ``SocketError``, the error of the sequence, and `CancellationError` if the task is cancelled.
  @discardableResult
  public nonisolated(nonsending) func write<Texts: AsyncSequence>(
    from texts: Texts, timeout: Timeout? = nil
  ) async throws -> Int where Texts.Element: StringProtocol {
    try await write(each: texts, timeout) { Array($0.utf8) }
  }

  private nonisolated(nonsending) func write<Elements: AsyncSequence>(
    each elements: Elements, _ timeout: Timeout?, _ bytes: (Elements.Element) -> [UInt8]
  ) async throws -> Int {
    var count = 0
    for try await element in elements {
      try await write(bytes(element), timeout, after: &count)
    }
    // Some sequences end when the task is cancelled. That is not the end of what was to be written.
    try Task.checkCancellation()
    return count
  }

  /// Writes one chunk, and adds its bytes to those of the earlier ones. An error has the number of all bytes that were sent.
  private nonisolated(nonsending) func write(_ chunk: [UInt8], _ timeout: Timeout?, after count: inout Int) async throws
  {
    do {
      try await write(chunk, timeout: timeout, progress: nil)
    } catch var error as SocketError {
      error.bytesTransferred += count
      throw error
    }
    count += chunk.count
  }

  /// Writes the bytes of an asynchronous sequence, such as the bytes of a file, in chunks of 16 KiB.
  ///
  /// The call waits until a chunk is full, or the sequence has ended. So if the sequence pauses, write a sequence of chunks instead:
  /// ``write(from:timeout:)-(Chunks,_)``. *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: The longest time that each write may take, or with ``Timeout/until(_:)`` all of them. `nil` means no limit.
  /// - Returns: The number of bytes written.
  /// - Throws: ``SocketError``, the error of the sequence, and `CancellationError` if the task is cancelled. If the sequence throws, the
  ///   bytes before its error are written first.
  @discardableResult
  public nonisolated(nonsending) func write<Bytes: AsyncSequence>(
    from bytes: Bytes, timeout: Timeout? = nil
  ) async throws -> Int where Bytes.Element == UInt8 {
    let size = 16_384
    var chunk: [UInt8] = []
    var count = 0
    func send() async throws {
      if chunk.isEmpty { return }
      let full = chunk
      chunk = []
      try await write(full, timeout, after: &count)
    }
    do {
      for try await byte in bytes {
        if chunk.isEmpty { chunk.reserveCapacity(size) }
        chunk.append(byte)
        if chunk.count == size { try await send() }
      }
    } catch {
      try await send()
      throw error
    }
    try await send()
    try Task.checkCancellation()
    return count
  }
}
