internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// Fetches at most 32 messages; the result is empty if nothing is available, or if this budget is used up. A message is one datagram,
  /// unless the kernel joins datagrams.
  func fetch(upTo limit: Int) -> [Datagram] {
    receiveBatches(upTo: limit) { batch, count in
      var datagrams: [Datagram] = []
      datagrams.reserveCapacity(count)
      for number in 0..<count {
        if let datagram = datagram(number, of: batch) { datagrams.append(datagram) }
      }
      return datagrams.isEmpty ? nil : datagrams
    } ?? []
  }

  /// Receives from the sockets, in their turns, until `take` returns a result: it returns `nil` if no datagram of the batch was for the
  /// caller. The result is `nil` if nothing is available, or if this budget is used up.
  @inline(__always)
  func receiveBatches<Taken>(
    upTo limit: Int, _ take: (_ batch: DatagramBatch, _ count: Int) throws -> Taken?
  ) rethrows -> Taken? {
    receives.renewBudget(in: registration.tick)
    return try core.rotation.round().first { index in
      // A filter or a closure of the program may have closed the endpoint.
      guard refusal == nil, core.rotation.mayFind(at: index),
        let (batch, count) = receiveBatch(index, upTo: min(limit, Self.fetchSize))
      else { return .empty }
      core.rotation.yielded(index)
      if counts.recorder != nil { recordReceived(batch, count, through: index) }
      if let taken = try registration.reactor.whileBatchIsRead({ try take(batch, count) }) { return .found(taken) }
      // A flood of dropped datagrams must not hold up other sockets.
      receives.budget.use(operations: count)
      if !receives.budget.isSpent { return .again }
      registration.reschedule()
      return .stop
    }
  }

  /// Keeps the datagrams beyond the limit for later calls. There are more than `fetch` was asked for only if the kernel joins datagrams.
  func keepingSurplus(_ fetched: [Datagram], _ limit: Int) -> [Datagram] {
    if fetched.count <= limit { return fetched }
    receives.queue.arrived(fetched[limit...])
    return Array(fetched[..<limit])
  }

  /// Calls recvmmsg(2) on one socket; `nil` when nothing waits there. The limit counts messages, and the result counts datagrams.
  func receiveBatch(_ index: Int, upTo limit: Int) -> (DatagramBatch, count: Int)? {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    for _ in 0..<4 {
      guard let socket = core.routes.sockets[index].socket, let batch = registration.reactor.datagramBatch() else {
        break
      }
      let size = core.joinsReceived ? DatagramBatch.joinedSize : core.sizes.room
      do throws(SystemError) {
        let count = try batch.receive(
          from: socket, atMost: limit, size: size, withMetadata: !configuration.metadata.isEmpty,
          descriptors: configuration.descriptorsPerDatagram)
        if count < min(limit, DatagramBatch.capacity(forSize: size)) {
          // Fewer than there is room for: the socket is drained, and the next arrival raises an event.
          drained(index)
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
    drained(index)
    return nil
  }

  /// Nothing waits at this socket.
  private func drained(_ index: Int) {
    core.rotation.markEmpty(index)
    core.routes.sockets[index].registration.awaitArrivals()
  }

  /// Called after an event about arrivals.
  func noteArrivalsLeft() {
    if receives.queue.count > 0 { return }
    for (index, bound) in core.routes.sockets.enumerated() where core.rotation.mayFind(at: index) {
      bound.registration.arrivalWasLeft()
    }
  }

  struct Arrival {
    let address: SocketAddress?
    /// The most bytes that the caller gets.
    let size: Int
    let isTruncated: Bool
    let descriptors: DescriptorBundle?
    let lacksDescriptors: Bool
  }

  /// Counts one datagram of a batch, and takes its descriptors. `nil` if the datagram is not from the peer.
  @inline(__always)
  func arrival(_ number: Int, of batch: DatagramBatch) -> Arrival? {
    let address = batch.address(number)?.unmapped
    let length = batch.length(number)
    let size = address?.isIPv6 == true ? core.sizes.receiveIPv6 : core.sizes.receiveIPv4
    let (descriptors, lacksDescriptors) = receivedDescriptors(number, of: batch)
    let isTruncated = batch.isTruncated(number) || length > size
    counts.received(length, isTruncated: isTruncated)
    // It may have arrived before the endpoint was connected.
    if let peer = core.routes.peer, address != peer.address, address != nil || !peer.address.isUnnamed { return nil }
    return Arrival(
      address: address, size: size, isTruncated: isTruncated, descriptors: descriptors,
      lacksDescriptors: lacksDescriptors)
  }

  func datagram(_ number: Int, of batch: DatagramBatch) -> Datagram? {
    guard let arrival = arrival(number, of: batch) else { return nil }
    var datagram = Datagram(
      received: batch.bytes(number, atMost: arrival.size), from: arrival.address, isTruncated: arrival.isTruncated,
      configuration.metadata.isEmpty ? nil : batch.metadata(number), arrival.descriptors,
      lacksDescriptors: arrival.lacksDescriptors)
    if let filter = filters.receive, filter(&datagram) == .drop {
      counts.filtered += 1
      return nil
    }
    return datagram
  }
}

extension SystemError {
  /// The socket itself is unusable: every other call would fail, too.
  var isOfSocket: Bool {
    [Errno.badDescriptor, Errno.notSocket, Errno.invalidArgument, Errno.notConnected].contains(errno)
  }
}
