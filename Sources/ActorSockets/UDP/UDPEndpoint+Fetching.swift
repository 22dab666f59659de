internal import EpollReactor
internal import SocketSystem

// Fetching datagrams from the kernel, and what is made of each.

extension UDPEndpoint {
  /// The datagrams that a filter may drop before others on the reactor have their turn.
  private static var dropsPerTurn: Int { 256 }

  /// Fetches a batch of at most 32; empty if nothing came of it, for now or for this turn.
  func fetch(upTo limit: Int) -> [Datagram] {
    var dropped = 0
    var datagrams: [Datagram] = []
    for step in sockets.indices {
      // In turns, so that a flood on one address does not shut the others out.
      let index = (nextSocket + step) % sockets.count
      while mayReceive[index] {
        guard let (batch, count) = receiveBatch(index, upTo: min(limit, Self.fetchSize)) else { break }
        nextSocket = index + 1
        datagrams.reserveCapacity(count)
        registration.reactor.whileBatchIsRead {
          for number in 0..<count {
            if let datagram = datagram(number, of: batch) { datagrams.append(datagram) }
          }
        }
        if !datagrams.isEmpty { return datagrams }
        // A flood of those that are dropped must not hold the others up.
        dropped += count
        if dropped >= Self.dropsPerTurn {
          registration.reschedule()
          return []
        }
      }
    }
    return []
  }

  /// recvmmsg(2) on one socket; `nil` when nothing waits there.
  func receiveBatch(_ index: Int, upTo limit: Int) -> (DatagramBatch, count: Int)? {
    // An error that is reported fails one call, whatever that is.
    for _ in 0..<4 {
      guard let socket = sockets[index].socket, let batch = registration.reactor.datagramBatch else { break }
      let size = configuration.receiveSize
      do throws(SystemError) {
        let count = try batch.receive(
          from: socket, atMost: limit, size: size, withMetadata: !configuration.metadata.isEmpty,
          descriptors: configuration.descriptorsPerDatagram)
        if count < min(limit, DatagramBatch.capacity(forSize: size)) {
          // Less than there is room for: nothing is left. What comes from now on is an event.
          mayReceive[index] = false
        } else {
          registration.reactor.whileBatchIsRead { tellDropped() }
        }
        return count > 0 ? (batch, count) : nil
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

  /// One of a batch; `nil` if it is dropped.
  func datagram(_ number: Int, of batch: DatagramBatch) -> Datagram? {
    let metadata = configuration.metadata.isEmpty ? nil : batch.metadata(number)
    let address = batch.address(number)?.unmapped
    let (descriptors, lacksDescriptors) = receivedDescriptors(number, of: batch)
    var datagram = Datagram(
      received: batch.bytes(number, atMost: maximumSize(from: address)), from: address,
      isTruncated: isTruncated(number, of: batch, from: address), metadata, descriptors,
      lacksDescriptors: lacksDescriptors)
    counts.received(batch.length(number), isTruncated: datagram.isTruncated)
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

  /// Whether one of a batch was longer than it may be.
  func isTruncated(_ number: Int, of batch: DatagramBatch, from address: SocketAddress?) -> Bool {
    batch.isTruncated(number) || batch.length(number) > maximumSize(from: address)
  }

  /// It came before the endpoint was connected, from somebody else than its peer.
  func isStranger(_ address: SocketAddress?) -> Bool {
    peer != nil && address != peer
  }
}

extension SystemError {
  /// The socket itself is of no use any more: no other call will do better.
  var isOfSocket: Bool {
    [Errno.badDescriptor, Errno.notSocket, Errno.invalidArgument, Errno.notConnected].contains(errno)
  }
}
