internal import CLinux
import Glibc

/// Memory for several datagrams that one system call receives or sends: recvmmsg(2), sendmmsg(2).
///
/// The kernel transfers messages. A message is one datagram, or several of one length that the kernel joins or divides: UDP_GRO,
/// UDP_SEGMENT. The callers of a batch only see datagrams.
///
/// Only one thread uses a batch, and for one call at a time. Received datagrams are valid until the next call.
///
/// Invariants:
/// - While a batch is filled for sending, `count` is at most `capacity`, and `ends` has one entry per datagram. `used` is the last entry,
///   or 0, and at most `room`. `messages` has one entry per message, in ascending order, and the last is `count`.
/// - After receiving, `joined` is empty if each message is one datagram. Otherwise it has one entry per datagram.
@safe package final class DatagramBatch {
  // SAFETY (here and below): both are made by `init` and freed once by `deinit`; indexes and sizes are checked; of the memory,
  // only what the kernel or a copy filled is read.
  let headers: OpaquePointer
  let memory: UnsafeMutableRawBufferPointer

  // Every datagram uses these properties several times, and no closure runs while one of them is changed. Debug builds and
  // ACTORSOCKETS_PLAIN check that. In other builds the checks would be 19 percent of the instructions of a datagram.

  /// The bytes from one received datagram to the next.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var stride = 0
  /// Received, or waiting to be sent.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private(set) package var count = 0
  /// The bytes of the datagrams to be sent.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var used = 0
  /// For each datagram to be sent, the bytes up to its end.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private(set) var ends: [Int] = []

  /// For each message to be sent, the datagrams up to its end.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private(set) var messages: [Int] = []
  /// The last message, if a datagram may still join it.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var run: OpenMessage?
  /// For each received datagram its message, and where its bytes are in the memory.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var joined: [(message: Int, bytes: Range<Int>)] = []

  /// The most datagrams in a batch to be sent.
  package static var capacity: Int { Int(CLINUX_BATCH_CAPACITY) }
  /// In bytes. Pages that are never touched take no physical memory.
  private static var room: Int { 1 << 19 }

  package static func capacity(forSize size: Int) -> Int { min(capacity, room / max(1, size)) }
  /// The largest message of joined datagrams, in bytes.
  package static var joinedSize: Int { 65_536 }

  /// `nil` if there is not enough memory.
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

  /// Receives the messages that wait, up to `limit` and the size of the memory: recvmmsg(2). Returns their number; 0 if no message waits.
  /// `count` is then the number of datagrams in them.
  ///
  /// A message longer than `size` bytes, 1 to 65,536, is cut. With `joinedSize`, the kernel may have joined datagrams (UDP_GRO).
  /// `withMetadata` if the socket has options set that make it report metadata. At most `descriptors` are received with each datagram. If
  /// that is not 0, or with metadata, call `takeDescriptors` once for each datagram, because that call closes the descriptors beyond the
  /// limit.
  package func receive(
    from socket: BorrowedDescriptor, atMost limit: Int, size: Int, withMetadata: Bool, descriptors: Int = 0
  ) throws(SystemError) -> Int {
    assert(limit >= 1, "a call asks for at least one datagram")
    count = 0
    if !joined.isEmpty { joined.removeAll(keepingCapacity: true) }
    stride = min(max(1, size), Self.joinedSize)
    let mayBeJoined = stride == Self.joinedSize
    let request = Request(
      limit: min(limit, Self.capacity(forSize: stride)), size: stride, withControl: withMetadata || mayBeJoined,
      descriptors: min(max(0, descriptors), Self.maximumDescriptors))
    let received = CurrentSystem.of(socket.number) { $0.receive(socket.number, into: self, request) }
    if received == -Int(EAGAIN) { return 0 }
    if received < 0 { throw SystemError(call: "recvmmsg", errno: Int32(-received)) }
    assert(received <= Self.capacity, "more messages than there are headers")
    count = received
    if mayBeJoined { divide(received) }
    return received
  }

  package struct Request {
    let limit: Int
    /// Also the distance from one message to the next in the memory.
    let size: Int
    /// Whether there is room for metadata.
    let withControl: Bool
    let descriptors: Int
  }

  private func divide(_ messages: Int) {
    // SAFETY (here and below): as above.
    let sizes = (0..<messages).map { Int(unsafe clinux_batch_segment_size(headers, Int32($0))) }
    if sizes.allSatisfy({ $0 == 0 }) { return }
    for (message, size) in sizes.enumerated() {
      let end = message * stride + messageLength(message)
      var start = message * stride
      repeat {
        let next = size > 0 ? min(start + size, end) : end
        joined.append((message, start..<next))
        start = next
      } while start < end
    }
    count = joined.count
  }

  private func message(_ index: Int) -> Int32 { Int32(joined.isEmpty ? index : joined[index].message) }

  private func messageLength(_ message: Int) -> Int {
    // SAFETY: as above.
    min(Int(unsafe clinux_batch_length(headers, Int32(message))), stride)
  }

  private func region(_ index: Int) -> Range<Int> {
    if !joined.isEmpty { return joined[index].bytes }
    return index * stride..<index * stride + length(index)
  }

  package func length(_ index: Int) -> Int {
    guard index < count else { return 0 }
    return joined.isEmpty ? messageLength(index) : joined[index].bytes.count
  }

  package func isTruncated(_ index: Int) -> Bool {
    // SAFETY: as above. There is enough space for any joined datagrams.
    guard index < count, joined.isEmpty else { return false }
    return unsafe clinux_batch_is_truncated(headers, Int32(index)) != 0
  }

  /// `nil` for a unix socket without a name.
  package func address(_ index: Int) -> SocketAddress? {
    guard index < count else { return nil }
    // SAFETY: as above; the address is filled up to its length.
    var length: UInt32 = 0
    let address = unsafe clinux_batch_address(headers, message(index), &length)
    if length == 0 { return nil }
    return unsafe SocketAddress(storage: address.assumingMemoryBound(to: sockaddr_storage.self), length: length)
  }

  /// For one datagram: unix(7), SCM_RIGHTS.
  package static var maximumDescriptors: Int { Int(CLINUX_MAXIMUM_DESCRIPTORS) }

  /// Takes the descriptors that came with a received datagram, in order, and closes those beyond the limit. A second call for the same
  /// datagram returns no descriptors. `kept` is `nil` if no descriptor came. `someAreLost` if this function or the kernel closed some.
  package func takeDescriptors(_ index: Int, atMost limit: Int) -> (kept: DescriptorBundle?, someAreLost: Bool) {
    guard index < count else { return (nil, false) }
    // SAFETY: as above; there is room for as many descriptors as are asked for.
    let room = min(max(0, limit), Self.maximumDescriptors)
    var receivedCount = 0
    var numbers: [Int32] = []
    if room == 0 {
      receivedCount = Int(unsafe clinux_batch_take_descriptors(headers, message(index), nil, 0))
    } else {
      numbers = unsafe [Int32](unsafeUninitializedCapacity: room) { numbers, initialized in
        receivedCount = Int(
          unsafe clinux_batch_take_descriptors(headers, message(index), numbers.baseAddress, Int32(room)))
        initialized = min(receivedCount, room)
      }
    }
    let isTruncated = unsafe clinux_batch_is_control_truncated(headers, message(index)) != 0
    return DescriptorBundle.receiving(numbers, someAreLost: isTruncated || receivedCount > room)
  }

  package func metadata(_ index: Int) -> DatagramMetadata {
    var metadata = clinux_metadata()
    guard index < count else { return DatagramMetadata() }
    // SAFETY: as above.
    unsafe clinux_batch_metadata(headers, message(index), &metadata)
    return DatagramMetadata(metadata)
  }

  package func withBytes<Result>(_ index: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    // SAFETY: as above; the closure cannot keep the span.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[region(index)])
    return try body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
  }

  package func bytes(_ index: Int, atMost limit: Int) -> [UInt8] {
    // SAFETY: as above.
    unsafe Array(UnsafeRawBufferPointer(rebasing: memory[region(index).prefix(limit)]))
  }

  // MARK: Sending

  package func clear() {
    count = 0
    used = 0
    run = nil
    // SAFETY: as above.
    ends.removeAll(keepingCapacity: true)
    messages.removeAll(keepingCapacity: true)
    unsafe clinux_batch_clear(headers)
  }

  /// Adds a datagram to be sent, whose bytes are copied; `false` if there is no room. It joins the message before it if it has the same
  /// destination, metadata and length, or is shorter and the last.
  ///
  /// The address is in the family of the socket; `nil` is the connected peer. A datagram that an IPv6 socket sends to an IPv4 address is
  /// no IPv6 datagram. The descriptors stay open until the batch is sent. `segmentLimit` is the longest datagram that may be joined with
  /// others, in bytes; 0 if no datagram may be.
  package func add(
    _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?, isIPv6: Bool,
    passing descriptors: DescriptorBundle? = nil, segmentLimit: Int = 0
  ) -> Bool {
    if count == Self.capacity || bytes.count > Self.room - used { return false }
    // SAFETY: there is room for the bytes; the headers point to them until the next batch, and copy the rest.
    let region = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[used..<used + bytes.count])
    unsafe bytes.withUnsafeBytes { bytes in unsafe region.copyMemory(from: bytes) }
    count += 1
    used += bytes.count
    ends.append(used)
    // Changed in place, because a copy would cost as much as the rest of this function.
    if let size = run?.join(bytes.count, address, metadata) {
      unsafe clinux_batch_extend(headers, UInt(bytes.count), UInt16(size))
      messages[messages.count - 1] = count
    } else {
      if let kernel = metadata?.kernelForm(isIPv6: isIPv6) {
        unsafe withUnsafePointer(to: kernel) { unsafe addMessage(region, to: address, $0, descriptors) }
      } else {
        unsafe addMessage(region, to: address, nil, descriptors)
      }
      messages.append(count)
      // A datagram with descriptors goes through a unix socket, which divides nothing.
      run = OpenMessage(bytes.count, address, metadata, segmentLimit)
    }
    assert(ends.count == count && messages.last == count && count <= Self.capacity && used <= Self.room)
    return true
  }

  /// A method with parameters instead of a closure that captures them needs no memory of its own.
  private func addMessage(
    _ bytes: UnsafeMutableRawBufferPointer, to address: SocketAddress?, _ metadata: UnsafePointer<clinux_metadata>?,
    _ descriptors: DescriptorBundle?
  ) {
    // SAFETY: as in `add`.
    let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
    let length = UInt(bytes.count)
    unsafe (descriptors?.numbers ?? []).withUnsafeBufferPointer { passed in
      let (first, number) = (passed.baseAddress, Int32(passed.count))
      guard let address else {
        return unsafe clinux_batch_add(headers, start, length, nil, 0, metadata, first, number)
      }
      unsafe address.withKernelAddress {
        unsafe clinux_batch_add(headers, start, length, $0, $1, metadata, first, number)
      }
    }
  }

  package func bytes(ofFirst count: Int) -> Int {
    assert(count <= ends.count)
    return count > 0 ? ends[count - 1] : 0
  }

  /// The length of the datagrams in the first message to be sent, in bytes; `nil` if that is one datagram.
  package var firstSegmentSize: Int? { (messages.first ?? 0) > 1 ? ends[0] : nil }

  /// Sends the whole batch: sendmmsg(2). Returns the number of datagrams sent; 0 if the socket has no room now. Throws the reason why the
  /// first message was not sent. If a later message fails, those before it are sent and counted. The next batch must begin with the
  /// failed message, and its call reports the reason.
  package func send(on socket: BorrowedDescriptor) throws(SystemError) -> Int {
    let sent = CurrentSystem.of(socket.number) { $0.send(socket.number, self) }
    if sent == -Int(EAGAIN) { return 0 }
    if sent < 0 { throw SystemError(call: "sendmmsg", errno: Int32(-sent)) }
    assert(sent <= count, "more datagrams were sent than added")
    return sent
  }
}
