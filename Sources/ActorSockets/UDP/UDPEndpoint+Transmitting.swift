internal import EpollReactor
internal import SocketSystem

// Giving datagrams to the kernel, and what its answers mean.

extension UDPEndpoint {
  private static var longestRetryDelay: Int64 { 100_000_000 }

  /// sendto(2); false if there is no room.
  func transmit(_ bytes: Span<UInt8>, _ index: Int, _ destination: SocketAddress?) throws(SocketError) -> Bool {
    // An error that is reported fails one call, whatever that is.
    for attempt in 0..<4 {
      guard let socket = sockets[index].socket else { throw SocketError(.closed, operation: "send") }
      switch socket.send(bytes, to: destination) {
      case .bytes:
        counts.sent(1, bytes: bytes.count)
        return true
      case .wouldBlock:
        waitToSend(index)
        return false
      case .failed(let error):
        if error.isShortage {
          waitToSend(index)
          return false
        }
        if attempt < 3, takeReportedErrors() > 0 || isStale(error) {
          if let error = reportedError.take() { throw error.during("send") }
          continue
        }
        throw failure(error, destination?.unmapped ?? peer, bytes.count)
      }
    }
    return false
  }

  /// Only somebody else's refusal can fail a send that has no peer; its entry of the error queue may be a moment late.
  private func isStale(_ error: SystemError) -> Bool {
    peer == nil && error.errno == Errno.connectionRefused && kinds[0] != .unix
  }

  /// Room to send is short: an event or a deadline will tell when to try again.
  private func waitToSend(_ index: Int) {
    mustWaitToSend = true
    // An endpoint that is not connected hears nothing of the room that another unix socket has, and none does of the room that
    // an interface has.
    if retry != nil { return }
    retry = registration.arm(
      at: instant(registration.reactor.now, plus: retryDelay), tag: DatagramDeadline.retry.rawValue)
    retryDelay = min(retryDelay * 2, Self.longestRetryDelay)
  }

  /// What a failed send means.
  private func failure(_ error: SystemError, _ address: SocketAddress?, _ count: Int) -> SocketError {
    switch error.errno {
    case Errno.messageTooLong:
      SocketError(
        .limitExceeded, operation: "send", detail: "\(count) bytes are more than a datagram can have on this way",
        errno: error.errno, address: address)
    case Errno.permissionDenied where address?.isUnix == false && !configuration.broadcast:
      SocketError(
        .permissionDenied, operation: "send",
        detail: "this is a broadcast address, perhaps, for which the configuration's `broadcast` has to be on",
        errno: error.errno, address: address)
    case Errno.wrongType where address?.isUnix == true:
      SocketError(
        .system, operation: "send", detail: "the socket there is not for datagrams", errno: error.errno,
        address: address)
    default:
      // What the path of a unix socket is told about is the same as in connecting.
      SocketError(
        SystemError(call: address?.isUnix == true ? "connect" : error.call, errno: error.errno), operation: "send",
        address: address)
    }
  }

  /// Sends the first datagrams of the queue, those that one socket sends, with one call; 0 if nothing can be sent now.
  ///
  /// - Returns: How many are sent, or have failed.
  func sendQueued(attempts: Int = 3) -> Int {
    guard let batch = registration.reactor.datagramBatch else {
      sends.queue.failed(SocketError(.system, operation: "send", errno: Errno.noMemory))
      return 1
    }
    batch.clear()
    var chosen: Int?
    var first: (address: SocketAddress?, count: Int) = (nil, 0)
    var passed: [(place: Int, descriptors: DescriptorBundle)] = []
    for datagram in sends.queue.unsent(atMost: DatagramBatch.capacity) {
      do throws(SocketError) {
        try checkSize(datagram.bytes.count)
        let (index, destination) = try route(datagram.remoteAddress)
        if let chosen, chosen != index { break }
        let address = destination?.unmapped ?? peer
        let metadata = datagram.metadata.flatMap { $0.isEmpty ? nil : $0 }
        let descriptors = try checked(datagram.descriptors, through: index)
        guard
          batch.add(
            datagram.bytes.span, to: destination, metadata, isIPv6: address?.isIPv6 == true, passing: descriptors)
        else {
          if chosen != nil { break }
          // No batch has room for it.
          let error = SystemError(call: "sendmmsg", errno: Errno.messageTooLong)
          sends.queue.failed(failure(error, address, datagram.bytes.count))
          return 1
        }
        if chosen == nil { first = (address, datagram.bytes.count) }
        if let descriptors { passed.append((batch.count - 1, descriptors)) }
        chosen = index
      } catch {
        // Those before it are sent first.
        if chosen != nil { break }
        sends.queue.failed(error)
        return 1
      }
    }
    guard let chosen else { return 0 }
    guard let socket = sockets[chosen].socket else {
      sends.queue.failed(lifecycle.failure?.during("send") ?? SocketError(.closed, operation: "send"))
      return 1
    }
    do throws(SystemError) {
      let sent = try batch.send(on: socket)
      if sent == 0 {
        waitToSend(chosen)
      } else {
        retryDelay = Self.firstRetryDelay
        sends.queue.sent(sent)
        counts.sent(sent, bytes: batch.bytes(ofFirst: sent))
        // The kernel has copies by now. Close them here, since the entry may wait until its other datagrams are sent.
        for (place, descriptors) in passed where place < sent { descriptors.closeAll() }
      }
      return sent
    } catch {
      if error.isShortage {
        waitToSend(chosen)
        return 0
      }
      if takeReportedErrors() > 0 || attempts > 0 && isStale(error) {
        guard let reported = reportedError.take() else {
          // The call has failed for an error that was reported before, and is of no other consequence.
          if attempts > 0 { return sendQueued(attempts: attempts - 1) }
          registration.reschedule()
          return 0
        }
        sends.queue.failed(reported.during("send"))
      } else {
        sends.queue.failed(failure(error, first.address, first.count))
      }
      return 1
    }
  }
}

extension SystemError {
  /// There is no room now, in a buffer or on an interface.
  fileprivate var isShortage: Bool { errno == Errno.noBuffers || errno == Errno.noMemory }
}
