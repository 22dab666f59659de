internal import CLinux
import Glibc

extension Linux {
  package func send(_ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?) -> Int {
    // SAFETY: the pointers are valid for the call, which only reads.
    unsafe bytes.withUnsafeBytes { buffer in
      guard let address else {
        return retryingInterrupts { unsafe clinux_sendto(number, buffer.baseAddress, UInt(buffer.count), nil, 0) }
      }
      return unsafe address.withKernelAddress { kernel, length in
        retryingInterrupts { unsafe clinux_sendto(number, buffer.baseAddress, UInt(buffer.count), kernel, length) }
      }
    }
  }

  @inline(__always)
  package func receive(_ number: Int32, into batch: DatagramBatch, _ request: DatagramBatch.Request) -> Int {
    guard let start = unsafe batch.memory.baseAddress else { return -Int(ENOMEM) }
    // SAFETY: the batch has memory for `limit` messages of that size, and nothing else uses it meanwhile.
    return retryingInterrupts {
      Int(
        unsafe clinux_batch_receive(
          batch.headers, number, start.assumingMemoryBound(to: UInt8.self), UInt(request.size), Int32(request.limit),
          request.withControl ? 1 : 0, Int32(request.descriptors)))
    }
  }

  @inline(__always)
  package func send(_ number: Int32, _ batch: DatagramBatch) -> Int {
    // SAFETY: as above; the headers point to bytes that stay until the batch is cleared.
    let sent = retryingInterrupts { Int(unsafe clinux_batch_send(batch.headers, number)) }
    return sent > 0 ? batch.messages[sent - 1] : sent
  }

  package func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32 {
    // SAFETY: the addresses are valid for their lengths during the call, which copies them.
    unsafe group.socketAddress(port: 0).withKernelAddress { group, groupLength in
      guard let source else {
        return unsafe clinux_multicast(number, joins ? 1 : 0, interface, group, groupLength, nil, 0)
      }
      return unsafe source.socketAddress(port: 0).withKernelAddress { source, sourceLength in
        unsafe clinux_multicast(number, joins ? 1 : 0, interface, group, groupLength, source, sourceLength)
      }
    }
  }

  package func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    // SAFETY: as above. The source is of the group's family.
    unsafe group.socketAddress(port: 0).withKernelAddress { group, length in
      guard let source else { return unsafe clinux_is_member(number, interface, group, length, nil) != 0 }
      return unsafe source.socketAddress(port: 0).withKernelAddress { source, _ in
        unsafe clinux_is_member(number, interface, group, length, source) != 0
      }
    }
  }

  package func takeReportedError(_ number: Int32) -> ReportedError? {
    while true {
      var entry = clinux_socket_error()
      // SAFETY: the call fills in one such value.
      let result = unsafe clinux_receive_error(number, &entry)
      if result == -EINTR { continue }
      if result < 0 { return nil }
      // A local call returns its own error, so the entry for it is skipped.
      if entry.error == 0 || entry.origin == 1 { continue }
      return ReportedError(entry)
    }
  }
}
