internal import CLinux
import Glibc

/// Memory for several datagrams that one system call receives or sends: recvmmsg(2), sendmmsg(2).
///
/// Only one thread uses a batch, and for one call at a time. Received datagrams are valid until the next call.
///
/// Invariants:
/// - `count` is at most `capacity`.
/// - While a batch is filled for sending, `ends` has one entry per datagram. `used` is the last entry, or 0, and at most
///   `room`.
@safe package final class DatagramBatch {
  // SAFETY (here and below): both are made by `init` and freed once by `deinit`; indexes and sizes are checked; of the memory,
  // only what the kernel or a copy filled is read.
  private let headers: OpaquePointer
  private let memory: UnsafeMutableRawBufferPointer

  // Every datagram uses these properties several times, and no closure runs while one of them is changed. Debug builds and
  // ACTORSOCKETS_PLAIN check that. In other builds the checks would be 19 percent of the instructions of a datagram.

  /// The distance in bytes from one received datagram to the next.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var stride = 0
  /// The number of datagrams that were received, or that wait to be sent.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private(set) package var count = 0
  /// The total size in bytes of the datagrams to be sent.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var used = 0
  /// For each datagram to be sent, the total size in bytes of that datagram and those before it.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var ends: [Int] = []

  /// The most datagrams in a batch to be sent.
  package static var capacity: Int { Int(CLINUX_BATCH_CAPACITY) }
  /// The size of the memory, in bytes. Pages that are never touched take no physical memory.
  private static var room: Int { 1 << 19 }

  /// Returns the most datagrams of `size` bytes that a batch can receive.
  package static func capacity(forSize size: Int) -> Int { min(capacity, room / max(1, size)) }

  /// Creates an empty batch. Returns `nil` if there is not enough memory.
  package init?() {
    // SAFETY: as above.
    guard let headers = unsafe clinux_batch_create() else { return nil }
    unsafe self.headers = headers
    unsafe memory = .allocate(byteCount: Self.room, alignment: 64)
  }

  deinit {
    // SAFETY: no other code has the memory after the last reference is released.
    unsafe clinux_batch_destroy(headers)
    unsafe memory.deallocate()
  }

  // MARK: Receiving

  /// Receives as many datagrams as wait, up to the limit and the size of the memory: recvmmsg(2).
  ///
  /// - Parameters:
  ///   - socket: A datagram socket.
  ///   - limit: The most datagrams, at least 1.
  ///   - size: The most bytes of each datagram, 1 to 65,536. A longer datagram is cut.
  ///   - withMetadata: Whether the socket has options set that make it report metadata.
  ///   - descriptors: The most descriptors that can be received with each datagram. If it is not 0, or with metadata,
  ///     call `takeDescriptors` once for each datagram, because that call closes the descriptors beyond the limit.
  /// - Returns: The number of datagrams received, or 0 if no datagram waits.
  /// - Throws: The error of recvmmsg(2).
  package func receive(
    from socket: BorrowedDescriptor, atMost limit: Int, size: Int, withMetadata: Bool, descriptors: Int = 0
  ) throws(SystemError) -> Int {
    assert(limit >= 1, "a call asks for at least one datagram")
    count = 0
    stride = min(max(1, size), 65_536)
    // SAFETY: as above; there is memory for `limit` datagrams of that size.
    let limit = Int32(min(limit, Self.capacity(forSize: stride)))
    let received = retryingInterrupts {
      guard let start = unsafe memory.baseAddress else { return -Int(ENOMEM) }
      return Int(
        unsafe clinux_batch_receive(
          headers, socket.number, start.assumingMemoryBound(to: UInt8.self), UInt(stride), limit,
          withMetadata ? 1 : 0, Int32(min(max(0, descriptors), Self.maximumDescriptors))))
    }
    if received == -Int(EAGAIN) { return 0 }
    if received < 0 { throw SystemError(call: "recvmmsg", errno: Int32(-received)) }
    assert(received <= Self.capacity, "more datagrams than there are headers")
    count = received
    return received
  }

  /// Returns the length of a received datagram in bytes.
  package func length(_ index: Int) -> Int {
    // SAFETY (here and below): as above.
    guard index < count else { return 0 }
    return min(Int(unsafe clinux_batch_length(headers, Int32(index))), stride)
  }

  /// Returns whether a received datagram was longer than its space, and was cut.
  package func isTruncated(_ index: Int) -> Bool {
    // SAFETY: as above.
    guard index < count else { return false }
    return unsafe clinux_batch_is_truncated(headers, Int32(index)) != 0
  }

  /// Returns the address that a received datagram came from, or `nil` for a unix socket without a name.
  package func address(_ index: Int) -> SocketAddress? {
    guard index < count else { return nil }
    // SAFETY: as above; the address is filled up to its length.
    var length: UInt32 = 0
    let address = unsafe clinux_batch_address(headers, Int32(index), &length)
    if length == 0 { return nil }
    return unsafe SocketAddress(storage: address.assumingMemoryBound(to: sockaddr_storage.self), length: length)
  }

  /// The most descriptors that one datagram can carry: unix(7), SCM_RIGHTS.
  package static var maximumDescriptors: Int { Int(CLINUX_MAXIMUM_DESCRIPTORS) }

  /// Takes the descriptors that came with a received datagram, in order, and closes those beyond the limit. A second
  /// call for the same datagram returns no descriptors.
  ///
  /// - Parameters:
  ///   - index: The index of the datagram.
  ///   - limit: The most descriptors to keep open.
  /// - Returns: The descriptors, or `nil` if there are none; and whether some were lost because this function or the
  ///   kernel closed them.
  package func takeDescriptors(_ index: Int, atMost limit: Int) -> (kept: DescriptorBundle?, someAreLost: Bool) {
    guard index < count else { return (nil, false) }
    // SAFETY: as above; there is room for as many descriptors as are asked for.
    let room = min(max(0, limit), Self.maximumDescriptors)
    var receivedCount = 0
    var numbers: [Int32] = []
    if room == 0 {
      receivedCount = Int(unsafe clinux_batch_take_descriptors(headers, Int32(index), nil, 0))
    } else {
      numbers = unsafe [Int32](unsafeUninitializedCapacity: room) { numbers, initialized in
        receivedCount = Int(
          unsafe clinux_batch_take_descriptors(headers, Int32(index), numbers.baseAddress, Int32(room)))
        initialized = min(receivedCount, room)
      }
    }
    let isTruncated = unsafe clinux_batch_is_control_truncated(headers, Int32(index)) != 0
    return (numbers.isEmpty ? nil : DescriptorBundle(owning: numbers), isTruncated || receivedCount > room)
  }

  /// Returns the metadata that was received with a datagram.
  package func metadata(_ index: Int) -> DatagramMetadata {
    var metadata = clinux_metadata()
    guard index < count else { return DatagramMetadata() }
    // SAFETY: as above.
    unsafe clinux_batch_metadata(headers, Int32(index), &metadata)
    return DatagramMetadata(metadata)
  }

  /// Lends the bytes of a received datagram.
  package func withBytes<Result>(_ index: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    let start = index * stride
    // SAFETY: as above; the closure cannot keep the span.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[start..<start + length(index)])
    return try body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
  }

  /// Copies the first bytes of a received datagram, at most `limit`.
  package func bytes(_ index: Int, atMost limit: Int) -> [UInt8] {
    let start = index * stride
    // SAFETY: as above.
    return unsafe Array(UnsafeRawBufferPointer(rebasing: memory[start..<start + min(limit, length(index))]))
  }

  // MARK: Sending

  /// Empties the batch, so that datagrams to be sent can be added.
  package func clear() {
    count = 0
    used = 0
    // SAFETY: as above.
    ends.removeAll(keepingCapacity: true)
    unsafe clinux_batch_clear(headers)
  }

  /// Adds a datagram to be sent. Its bytes are copied.
  ///
  /// - Parameters:
  ///   - bytes: The payload.
  ///   - address: The destination, in the family of the socket; `nil` for the connected peer.
  ///   - metadata: The metadata to send with the datagram.
  ///   - isIPv6: Whether it is an IPv6 datagram. A datagram that an IPv6 socket sends to an IPv4 address is not.
  ///   - descriptors: The descriptors to pass, at most `maximumDescriptors`. They stay open until the batch is sent.
  /// - Returns: Whether there was room for the datagram.
  package func add(
    _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?, isIPv6: Bool,
    passing descriptors: DescriptorBundle? = nil
  ) -> Bool {
    let passed = descriptors?.numbers ?? []
    if count == Self.capacity || bytes.count > Self.room - used { return false }
    // SAFETY: there is room for the bytes; the headers point to them until the next batch, and copy the rest.
    let place = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[used..<used + bytes.count])
    unsafe bytes.withUnsafeBytes { bytes in unsafe place.copyMemory(from: bytes) }
    let start = unsafe place.baseAddress?.assumingMemoryBound(to: UInt8.self)
    func add(_ control: UnsafePointer<clinux_metadata>?) {
      unsafe passed.withUnsafeBufferPointer { passed in
        let (first, number) = (passed.baseAddress, Int32(passed.count))
        if let address {
          unsafe address.withKernelAddress {
            unsafe clinux_batch_add(headers, start, UInt(bytes.count), $0, $1, control, first, number)
          }
        } else {
          unsafe clinux_batch_add(headers, start, UInt(bytes.count), nil, 0, control, first, number)
        }
      }
    }
    if let kernel = metadata?.kernelForm(isIPv6: isIPv6) {
      unsafe withUnsafePointer(to: kernel) { unsafe add($0) }
    } else {
      add(nil)
    }
    count += 1
    used += bytes.count
    ends.append(used)
    assert(ends.count == count && count <= Self.capacity && used <= Self.room)
    return true
  }

  /// Returns the total size in bytes of the first `count` datagrams to be sent.
  package func bytes(ofFirst count: Int) -> Int {
    assert(count <= ends.count)
    return count > 0 ? ends[count - 1] : 0
  }

  /// Sends the whole batch: sendmmsg(2).
  ///
  /// - Parameter socket: A datagram socket.
  /// - Returns: The number of datagrams sent, or 0 if the socket has no room now.
  /// - Throws: The reason why the first datagram was not sent. If a later datagram fails, those before it are sent and
  ///   counted. The next batch must begin with the failed datagram, and its call reports the reason.
  package func send(on socket: BorrowedDescriptor) throws(SystemError) -> Int {
    // SAFETY: as above.
    let sent = retryingInterrupts { Int(unsafe clinux_batch_send(headers, socket.number)) }
    if sent == -Int(EAGAIN) { return 0 }
    if sent < 0 { throw SystemError(call: "sendmmsg", errno: Int32(-sent)) }
    assert(sent <= count, "more datagrams were sent than added")
    return sent
  }
}
