internal import CLinux
import Glibc

// The messages of a batch one by one, for a system that transfers one datagram with each call.

extension DatagramBatch {
  /// Describes a received datagram in the headers as the kernel would.
  func fill(_ index: Int, with datagram: ReceivedDatagram, atMost size: Int) {
    let length = min(datagram.bytes.count, size)
    let start = index * size
    // SAFETY: the bytes are inside the memory; the headers have one entry for each message up to the capacity. A message has at most
    // `maximumDescriptors` descriptors.
    unsafe UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + length]).copyBytes(
      from: datagram.bytes.prefix(length))
    let (address, isCut) = (datagram.address, Int32(length < datagram.bytes.count ? 1 : 0))
    var metadata = datagram.metadata.receivedForm(isIPv6: address?.unmapped.isIPv6 == true)
    unsafe (address ?? .unix(.unnamed)).withKernelAddress { kernel, size in
      unsafe clinux_batch_fill(
        headers, Int32(index), UInt(length), isCut, kernel, address == nil ? 0 : size, &metadata,
        datagram.rights.numbers, Int32(datagram.rights.numbers.count), datagram.rights.areTruncated ? 1 : 0)
    }
  }

  struct Header {
    let address: SocketAddress?
    let metadata: DatagramMetadata
    let descriptors: [Int32]
  }

  func header(of message: Int) -> Header {
    // SAFETY: the address and the descriptors were filled by `add`.
    var (size, passed): (UInt32, Int32) = (0, 0)
    let first = unsafe clinux_batch_passed(headers, Int32(message), &passed)
    let descriptors = unsafe Array(UnsafeBufferPointer(start: first, count: Int(passed)))
    let kernel = unsafe clinux_batch_address(headers, Int32(message), &size)
    let address =
      size == 0
      ? nil : unsafe SocketAddress(storage: kernel.assumingMemoryBound(to: sockaddr_storage.self), length: size)
    var form = clinux_metadata()
    unsafe clinux_batch_metadata(headers, Int32(message), &form)
    var metadata = DatagramMetadata(form)
    // The field with the source address of a sent IPv4 message has, in a received one, the address to answer from.
    if form.is_ipv6 == 0 { metadata.localAddress = metadata.answerAddress }
    return Header(address: address, metadata: metadata, descriptors: descriptors)
  }

  func withBytesToSend<Result>(_ index: Int, _ body: (Span<UInt8>) -> Result) -> Result {
    // SAFETY: `add` copied these bytes, and they stay until the batch is cleared.
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[bytes(ofFirst: index)..<ends[index]])
    return body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
  }
}
