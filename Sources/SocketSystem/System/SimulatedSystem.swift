import Glibc

/// A simulation, which answers each call at once. Calls that do several things, such as sending several datagrams, are made here of
/// simpler ones.
package protocol SimulatedSystem: SystemCalls {
  /// The number that a descriptor has in its program, which is below the limit.
  func localNumber(of number: Int32) -> Int32
  /// For the next descriptor of the program; `nil` if the limit is reached.
  var nextLocalNumber: Int32? { get }
  /// Of the file that bind(2) made for a unix socket; `nil` if there is no such file. A simulation has no other files.
  func inode(of path: UnixPath) -> UInt64?

  /// sendmsg(2); `nil` is the connected peer.
  func send(
    _ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?,
    passing descriptors: [Int32]
  ) -> Int
  /// recvmsg(2), with room for `most` descriptors.
  func receiveDatagram(_ number: Int32, descriptors most: Int) -> (result: Int32, datagram: ReceivedDatagram?)
}

package struct ReceivedDatagram {
  package let bytes: [UInt8]
  /// In the form that programs of the socket's family see; `nil` for a unix socket without a name.
  package let address: SocketAddress?
  package let metadata: DatagramMetadata
  package let rights: ReceivedRights

  package init(
    bytes: [UInt8], address: SocketAddress?, metadata: DatagramMetadata, rights: ReceivedRights = ReceivedRights()
  ) {
    self.bytes = bytes
    self.address = address
    self.metadata = metadata
    self.rights = rights
  }
}

extension SimulatedSystem {
  package var mayWaitForThreads: Bool { false }
  package func prepare(_ number: Int32, nonblocking: Bool) -> Int32 { 0 }
  package func forget(_ number: Int32) {}

  package func isReserved(_ number: Int32) -> Bool {
    DescriptorReserve(limit: readDescriptorLimit()).contains(localNumber(of: number))
  }

  package func leavesReserve(_ number: Int32) -> Bool {
    guard let next = nextLocalNumber else { return false }
    return !DescriptorReserve(limit: readDescriptorLimit()).contains(next)
  }

  /// close(2) then resets the connection.
  package func reset(_ number: Int32) -> Int32 {
    setOption(.linger, of: number, to: RawOption.lingerValue(seconds: 0))
  }

  package func hasReceivableBytes(_ number: Int32) -> Bool { receivableBytes(number) > 0 }

  /// The sum is what one call would have sent.
  package func send(_ number: Int32, gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Int {
    var sum = 0
    var skipped = offset
    for piece in pieces {
      let rest = piece.span.extracting(droppingFirst: skipped)
      skipped = 0
      let sent = send(number, rest)
      if sent < 0 { return sum > 0 ? sum : sent }
      sum += sent
      if sent < rest.count { break }
    }
    return sum
  }

  package func send(_ number: Int32, file: Int32, from offset: Int, count: Int) -> FileTransfer {
    do throws(SystemError) {
      let bytes = try Linux().read(file, from: offset, atMost: min(count, 65_536))
      if bytes.isEmpty { return .unreadable(nil) }
      return .transfer(BorrowedDescriptor.transfer(send(number, bytes.span), "sendfile"))
    } catch {
      return .unreadable(error)
    }
  }

  package func setOption(_ option: RawOption, of number: Int32, to value: Int32) -> Int32 {
    setOption(option, of: number, to: value.kernelBytes)
  }

  package func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: Int32) {
    let (result, value) = self.option(option, of: number, atMost: MemoryLayout<Int32>.size)
    return (result, Int32(kernelBytes: value))
  }

  package func status(of path: UnixPath, followingLinks: Bool) -> FileStatus? {
    inode(of: path).map { FileStatus(simulatedSocket: $0) }
  }

  package func hold(_ path: UnixPath) -> HeldFile? {
    guard let status = status(of: path, followingLinks: false) else { return nil }
    return HeldFile(simulated: status)
  }

  /// A directory cannot be opened, so it is not locked.
  package func openDirectory(_ path: UnixPath) -> Int32 { -EACCES }
  package func setPermissions(of number: Int32, to permissions: UInt16) -> Int32 { 0 }
  package func absolute(_ path: UnixPath) -> UnixPath { path }

  package func send(_ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?) -> Int {
    send(number, bytes, to: address, nil, passing: [])
  }

  package func receive(_ number: Int32, into batch: DatagramBatch, _ request: DatagramBatch.Request) -> Int {
    var count = 0
    while count < request.limit {
      let (result, datagram) = receiveDatagram(number, descriptors: request.descriptors)
      guard let datagram else { return count > 0 ? count : Int(result) }
      batch.fill(count, with: datagram, atMost: request.size)
      count += 1
    }
    return count
  }

  package func send(_ number: Int32, _ batch: DatagramBatch) -> Int {
    var sent = 0
    for (message, end) in batch.messages.enumerated() {
      let header = batch.header(of: message)
      while sent < end {
        let result = batch.withBytesToSend(sent) {
          send(number, $0, to: header.address, header.metadata, passing: header.descriptors)
        }
        if result < 0 { return sent > 0 ? sent : result }
        sent += 1
      }
    }
    return sent
  }
}
