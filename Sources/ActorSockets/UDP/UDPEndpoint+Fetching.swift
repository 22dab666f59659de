internal import EpollReactor
internal import SocketSystem

// Fetches datagrams from the kernel, and decides what happens to each.

extension UDPEndpoint {
  /// Datagrams may wait at any of the sockets.
  func datagramsMayWait() {
    for index in mayReceive.indices { mayReceive[index] = true }
  }

  /// The number of datagrams that a filter may drop before other sockets of the reactor run.
  private static var dropsPerShare: Int { 256 }

  /// Fetches a batch of at most 32 messages; empty if nothing is available, or if this share is used up. A message is one datagram,
  /// unless the kernel joins datagrams.
  func fetch(upTo limit: Int) -> [Datagram] {
    var dropped = 0
    var datagrams: [Datagram] = []
    for index in turns.pass(over: sockets.count) {
      while mayReceive[index] {
        guard let (batch, count) = receiveBatch(index, upTo: min(limit, Self.fetchSize)) else { break }
        turns.yielded(index)
        datagrams.reserveCapacity(count)
        registration.reactor.whileBatchIsRead {
          for number in 0..<count {
            if let datagram = datagram(number, of: batch) { datagrams.append(datagram) }
          }
        }
        if !datagrams.isEmpty { return datagrams }
        // A flood of dropped datagrams must not hold up other sockets.
        dropped += count
        if dropped >= Self.dropsPerShare {
          registration.reschedule()
          return []
        }
      }
    }
    return []
  }

  /// Returns the first of the datagrams that were just fetched, up to a limit, and keeps the others for later calls. There are more than
  /// `fetch` was asked for only if the kernel joins datagrams.
  func keepingSurplus(_ fetched: [Datagram], _ limit: Int) -> [Datagram] {
    if fetched.count <= limit { return fetched }
    receives.queue.arrived(fetched[limit...])
    return Array(fetched[..<limit])
  }

  /// Calls recvmmsg(2) on one socket; returns `nil` when nothing waits there.
  ///
  /// - Parameters:
  ///   - index: The index of the socket.
  ///   - limit: The largest number of messages.
  /// - Returns: The batch, and the number of datagrams in it.
  func receiveBatch(_ index: Int, upTo limit: Int) -> (DatagramBatch, count: Int)? {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    for _ in 0..<4 {
      guard let socket = sockets[index].socket, let batch = registration.reactor.datagramBatch() else { break }
      let size = joinsReceived ? DatagramBatch.joinedSize : configuration.receiveSize
      do throws(SystemError) {
        let count = try batch.receive(
          from: socket, atMost: limit, size: size, withMetadata: !configuration.metadata.isEmpty,
          descriptors: configuration.descriptorsPerDatagram)
        if count < min(limit, DatagramBatch.capacity(forSize: size)) {
          // Fewer than there is room for: the socket is drained, and the next arrival raises an event.
          mayReceive[index] = false
        } else {
          registration.reactor.whileBatchIsRead { tellDropped() }
        }
        return count > 0 ? (batch, batch.count) : nil
      } catch {
        if error.isOfSocket {
          end(SocketError(error, operation: "receive", address: localAddresses.first))
          return nil
        }
        if takeReportedErrors() == 0 { report(SocketError(error, operation: "receive"), from: nil) }
      }
    }
    mayReceive[index] = false
    return nil
  }

  /// Creates one datagram of a batch; `nil` if it is dropped.
  func datagram(_ number: Int, of batch: DatagramBatch) -> Datagram? {
    let metadata = configuration.metadata.isEmpty ? nil : batch.metadata(number)
    let address = batch.address(number)?.unmapped
    let length = batch.length(number)
    let (descriptors, lacksDescriptors) = receivedDescriptors(number, of: batch)
    var datagram = Datagram(
      received: batch.bytes(number, atMost: maximumSize(from: address)), from: address,
      isTruncated: isTruncated(number, of: batch, length, from: address), metadata, descriptors,
      lacksDescriptors: lacksDescriptors)
    counts.received(length, isTruncated: datagram.isTruncated)
    if isStranger(address) { return nil }
    if let receiveFilter, receiveFilter(&datagram) == .drop {
      counts.filtered += 1
      return nil
    }
    return datagram
  }

  func maximumSize(from address: SocketAddress?) -> Int {
    address?.isIPv6 == true ? configuration.maximumReceiveSizeIPv6 : configuration.maximumReceiveSizeIPv4
  }

  /// Whether a datagram of a batch was longer than the configuration allows.
  func isTruncated(_ number: Int, of batch: DatagramBatch, _ length: Int, from address: SocketAddress?) -> Bool {
    batch.isTruncated(number) || length > maximumSize(from: address)
  }

  /// Whether the datagram arrived before the endpoint was connected, from a sender other than its peer.
  func isStranger(_ address: SocketAddress?) -> Bool {
    peer != nil && address != peer
  }
}

extension SystemError {
  /// The socket itself is unusable: every other call would fail, too.
  var isOfSocket: Bool {
    [Errno.badDescriptor, Errno.notSocket, Errno.invalidArgument, Errno.notConnected].contains(errno)
  }
}
