internal import CLinux
import Glibc

/// Memory for several datagrams that are received or sent with one system call: recvmmsg(2), sendmmsg(2).
///
/// One thread uses it, for one call at a time: what was received is good until the next call.
@safe package final class DatagramBatch {
  // SAFETY (here and below): both are made by `init` and freed once by `deinit`; indexes and sizes are checked; of the memory,
  // only what the kernel or a copy filled is read.
  private let headers: OpaquePointer
  private let memory: UnsafeMutableRawBufferPointer
  /// The bytes from one received datagram to the next.
  private var size = 0
  /// The datagrams that were received, or that are to be sent.
  private(set) package var count = 0
  /// The bytes of the datagrams to be sent.
  private var used = 0
  /// The bytes of each of them and those before.
  private var ends: [Int] = []

  /// The most datagrams in a batch to be sent.
  package static var capacity: Int { Int(CLINUX_BATCH_CAPACITY) }
  /// The bytes that a batch has room for. Untouched pages take no memory.
  private static var room: Int { 1 << 19 }

  /// The most datagrams of so many bytes in a batch to be received.
  package static func capacity(forSize size: Int) -> Int { min(capacity, room / max(1, size)) }

  /// `nil` for want of memory.
  package init?() {
    // SAFETY: as above.
    guard let headers = unsafe clinux_batch_create() else { return nil }
    unsafe self.headers = headers
    unsafe memory = .allocate(byteCount: Self.room, alignment: 64)
  }

  deinit {
    // SAFETY: the only owner is gone.
    unsafe clinux_batch_destroy(headers)
    unsafe memory.deallocate()
  }

  // MARK: Receiving

  /// recvmmsg(2): as many datagrams as wait and there is room for.
  ///
  /// - Parameters:
  ///   - socket: A datagram socket.
  ///   - limit: The most datagrams, at least 1.
  ///   - size: The most bytes of each, 1 to 65,536; what is longer is cut.
  ///   - withMetadata: Whether the socket has been asked for any.
  ///   - descriptors: The number of descriptors that there is room for with each datagram. If it is not 0, or with metadata,
  ///     call `takeDescriptors` once for each datagram: it closes those that are too many.
  /// - Returns: How many were received; 0 when none waits.
  /// - Throws: What the call reports.
  package func receive(
    from socket: Socket, atMost limit: Int, size: Int, withMetadata: Bool, descriptors: Int = 0
  ) throws(SystemError) -> Int {
    count = 0
    self.size = min(max(1, size), 65_536)
    // SAFETY: as above; there is memory for so many of that size.
    let limit = Int32(min(limit, Self.capacity(forSize: self.size)))
    let received = retryingInterrupts {
      guard let start = unsafe memory.baseAddress else { return -Int(ENOMEM) }
      return Int(
        unsafe clinux_batch_receive(
          headers, socket.number, start.assumingMemoryBound(to: UInt8.self), UInt(self.size), limit,
          withMetadata ? 1 : 0, Int32(min(max(0, descriptors), Self.maximumDescriptors))))
    }
    if received == -Int(EAGAIN) { return 0 }
    if received < 0 { throw SystemError(call: "recvmmsg", errno: Int32(-received)) }
    count = received
    return received
  }

  /// The number of bytes of a received datagram.
  package func length(_ index: Int) -> Int {
    // SAFETY (here and below): as above.
    guard index < count else { return 0 }
    return min(Int(unsafe clinux_batch_length(headers, Int32(index))), size)
  }

  /// Whether a received datagram was longer than there was room for.
  package func isTruncated(_ index: Int) -> Bool {
    // SAFETY: as above.
    guard index < count else { return false }
    return unsafe clinux_batch_is_truncated(headers, Int32(index)) != 0
  }

  /// Where a received datagram came from; `nil` for a unix socket without a name.
  package func address(_ index: Int) -> SocketAddress? {
    guard index < count else { return nil }
    // SAFETY: as above; the address is filled up to its length.
    var length: UInt32 = 0
    let address = unsafe clinux_batch_address(headers, Int32(index), &length)
    if length == 0 { return nil }
    return unsafe SocketAddress(storage: address.assumingMemoryBound(to: sockaddr_storage.self), length: length)
  }

  /// The most descriptors that go with a datagram: unix(7), SCM_RIGHTS.
  package static var maximumDescriptors: Int { Int(CLINUX_MAXIMUM_DESCRIPTORS) }

  /// Takes the descriptors that came with a received datagram, in order, and closes those beyond the limit. A second call
  /// returns no descriptors.
  ///
  /// - Parameters:
  ///   - index: The datagram.
  ///   - limit: The most descriptors to keep open.
  /// - Returns: The descriptors, `nil` if there are none; and whether some were lost because they were closed, here or by the
  ///   kernel.
  package func takeDescriptors(_ index: Int, atMost limit: Int) -> (kept: DescriptorBundle?, someAreLost: Bool) {
    guard index < count else { return (nil, false) }
    // SAFETY: as above; there is room for as many descriptors as are asked for.
    let room = min(max(0, limit), Self.maximumDescriptors)
    var came = 0
    var numbers: [Int32] = []
    if room == 0 {
      came = Int(unsafe clinux_batch_take_descriptors(headers, Int32(index), nil, 0))
    } else {
      numbers = unsafe [Int32](unsafeUninitializedCapacity: room) { numbers, initialized in
        came = Int(unsafe clinux_batch_take_descriptors(headers, Int32(index), numbers.baseAddress, Int32(room)))
        initialized = min(came, room)
      }
    }
    let isTruncated = unsafe clinux_batch_is_control_truncated(headers, Int32(index)) != 0
    return (numbers.isEmpty ? nil : DescriptorBundle(owning: numbers), isTruncated || came > room)
  }

  /// What was received with a datagram.
  package func metadata(_ index: Int) -> DatagramMetadata {
    var metadata = clinux_metadata()
    guard index < count else { return DatagramMetadata() }
    // SAFETY: as above.
    unsafe clinux_batch_metadata(headers, Int32(index), &metadata)
    return DatagramMetadata(metadata)
  }

  /// Shows the bytes of a received datagram.
  package func withBytes<Result>(_ index: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    let start = index * size
    // SAFETY: as above; the closure cannot keep the span.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[start..<start + length(index)])
    return try body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
  }

  /// The first bytes of a received datagram.
  package func bytes(_ index: Int, atMost limit: Int) -> [UInt8] {
    let start = index * size
    // SAFETY: as above.
    return unsafe Array(UnsafeRawBufferPointer(rebasing: memory[start..<start + min(limit, length(index))]))
  }

  // MARK: Sending

  /// Begins a batch to be sent.
  package func clear() {
    count = 0
    used = 0
    // SAFETY: as above.
    ends.removeAll(keepingCapacity: true)
    unsafe clinux_batch_clear(headers)
  }

  /// Adds a datagram; its bytes are copied.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - address: Where it goes, in the family of the socket; `nil` for the connected peer.
  ///   - metadata: What goes along.
  ///   - isIPv6: Whether it is an IPv6 datagram: one to an IPv4 address of an IPv6 socket is not.
  ///   - descriptors: What to pass along, at most `maximumDescriptors`; they stay open until the batch is sent.
  /// - Returns: Whether there was room.
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
    return true
  }

  /// The bytes of the first datagrams of a batch to be sent.
  package func bytes(ofFirst count: Int) -> Int { count > 0 ? ends[count - 1] : 0 }

  /// sendmmsg(2) of the whole batch.
  ///
  /// - Parameter socket: A datagram socket.
  /// - Returns: How many were sent; 0 when there is no room now.
  /// - Throws: Why the first was not sent. If it is another one, those before it are sent, and the next batch, which begins
  ///   with it, says why.
  package func send(on socket: Socket) throws(SystemError) -> Int {
    // SAFETY: as above.
    let sent = retryingInterrupts { Int(unsafe clinux_batch_send(headers, socket.number)) }
    if sent == -Int(EAGAIN) { return 0 }
    if sent < 0 { throw SystemError(call: "sendmmsg", errno: Int32(-sent)) }
    return sent
  }
}
