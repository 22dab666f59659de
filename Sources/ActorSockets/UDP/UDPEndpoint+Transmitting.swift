internal import EpollReactor
internal import SocketSystem

// Gives datagrams to the kernel, and interprets its answers.

extension UDPEndpoint {
  private static var longestRetryDelay: Int64 { 100_000_000 }

  /// Calls sendto(2); returns `false` if there is no room.
  func transmit(_ bytes: Span<UInt8>, _ index: Int, _ destination: SocketAddress?) throws(SocketError) -> Bool {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    for attempt in 0..<4 {
      guard let socket = sockets[index].socket else { throw SocketError(.closed, operation: "send") }
      switch socket.send(bytes, to: destination) {
      case .bytes:
        retryDelay = Self.firstRetryDelay
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

  /// Whether an error is about an earlier datagram. Without a peer, ECONNREFUSED always is; its entry in the error queue may
  /// arrive slightly later.
  private func isStale(_ error: SystemError) -> Bool {
    peer == nil && error.errno == Errno.connectionRefused && kinds[0] != .unix
  }

  /// There is no room to send. An event or a deadline says when to try again.
  private func waitToSend(_ index: Int) {
    mustWaitToSend = true
    // No event announces room in the buffer of another unix socket unless this one is connected to it, nor room in an
    // interface's queue. So a deadline tries again.
    if retry != nil { return }
    retry = registration.arm(
      at: instant(registration.reactor.now, plus: retryDelay), tag: DatagramDeadline.retry.rawValue)
    retryDelay = min(retryDelay * 2, Self.longestRetryDelay)
  }

  /// Creates the error for a failed send.
  private func failure(_ error: SystemError, _ address: SocketAddress?, _ count: Int) -> SocketError {
    switch error.errno {
    case Errno.messageTooLong:
      SocketError(
        .limitExceeded, operation: "send", detail: "\(count) bytes are more than a datagram to this address can have",
        errno: error.errno, address: address)
    case Errno.permissionDenied where !configuration.broadcast && address?.isBroadcast == true:
      SocketError(
        .permissionDenied, operation: "send",
        detail: "this is a broadcast address, which needs the configuration's `broadcast`",
        errno: error.errno, address: address)
    case Errno.notImplemented: SocketError.passesOnlySimulated("send")
    case Errno.wrongType where address?.isUnix == true:
      SocketError(
        .system, operation: "send", detail: "the socket at this path is not a datagram socket", errno: error.errno,
        address: address)
    default:
      // For the path of a unix socket, the errors mean the same as in connect(2).
      SocketError(
        SystemError(call: address?.isUnix == true ? "connect" : error.call, errno: error.errno), operation: "send",
        address: address)
    }
  }

  /// Sends the first datagrams of the queue that use the same socket, with one system call.
  ///
  /// - Returns: The number of datagrams that were sent or have failed; 0 if nothing can be sent now.
  func sendQueued(attempts: Int = 3) -> Int {
    guard let batch = registration.reactor.datagramBatch else {
      sends.queue.failed(SocketError(.system, operation: "send", errno: Errno.noMemory))
      return 1
    }
    let gathered: Gathered
    do throws(SocketError) {
      guard let found = try gather(into: batch) else { return 0 }
      gathered = found
    } catch {
      sends.queue.failed(error)
      return 1
    }
    guard let socket = sockets[gathered.index].socket else {
      sends.queue.failed(lifecycle.failure?.during("send") ?? SocketError(.closed, operation: "send"))
      return 1
    }
    do throws(SystemError) {
      let sent = try batch.send(on: socket)
      if sent == 0 {
        waitToSend(gathered.index)
      } else {
        retryDelay = Self.firstRetryDelay
        sends.queue.sent(sent)
        counts.sent(sent, bytes: batch.bytes(ofFirst: sent))
        // The kernel has copies now. Close the descriptors here, because the entry may wait until its other datagrams are sent.
        for (place, descriptors) in gathered.passed where place < sent { descriptors.closeAll() }
      }
      return sent
    } catch {
      return sendFailed(error, gathered, attempts: attempts)
    }
  }

  /// The datagrams in a batch, which one socket sends.
  private struct Gathered {
    /// The index of the socket.
    let index: Int
    /// The peer and the number of bytes of the first datagram.
    let first: (address: SocketAddress?, count: Int)
    /// The descriptors that go with a datagram, and its place in the batch.
    var passed: [(place: Int, descriptors: DescriptorBundle)] = []
  }

  /// Puts the first datagrams of the queue that use the same socket into a batch.
  ///
  /// - Returns: The contents of the batch; `nil` if the queue is empty.
  /// - Throws: Why the first datagram cannot be sent.
  private func gather(into batch: DatagramBatch) throws(SocketError) -> Gathered? {
    batch.clear()
    var gathered: Gathered?
    for datagram in sends.queue.unsent(atMost: DatagramBatch.capacity, where: { !$0.isPastDeadline(registration) }) {
      do throws(SocketError) {
        try checkSize(datagram.bytes.count)
        let (index, destination) = try route(datagram.remoteAddress)
        if let gathered, gathered.index != index { break }
        let address = destination?.unmapped ?? peer
        let metadata = datagram.metadata.flatMap { $0.isEmpty ? nil : $0 }
        let descriptors = try checked(datagram.descriptors, through: index)
        guard
          batch.add(
            datagram.bytes.span, to: destination, metadata, isIPv6: address?.isIPv6 == true, passing: descriptors,
            segmentLimit: segmentLimits[index])
        else {
          if gathered != nil { break }
          // It does not fit even into an empty batch.
          throw failure(SystemError(call: "sendmmsg", errno: Errno.messageTooLong), address, datagram.bytes.count)
        }
        if gathered == nil { gathered = Gathered(index: index, first: (address, datagram.bytes.count)) }
        if let descriptors { gathered?.passed.append((batch.count - 1, descriptors)) }
      } catch {
        // Send the earlier datagrams first.
        if gathered != nil { break }
        throw error
      }
    }
    return gathered
  }

  /// Handles the failure of a batch's system call.
  ///
  /// - Returns: The number of datagrams that were sent or have failed; 0 if nothing can be sent now.
  private func sendFailed(_ error: SystemError, _ gathered: Gathered, attempts: Int) -> Int {
    if lowerSegmentLimit(gathered.index, after: error) { return sendQueued(attempts: attempts) }
    if error.isShortage {
      waitToSend(gathered.index)
      return 0
    }
    if takeReportedErrors() > 0 || attempts > 0 && isStale(error) {
      guard let reported = reportedError.take() else {
        // The call failed because of an error that was reported earlier. Only repeat the call.
        if attempts > 0 { return sendQueued(attempts: attempts - 1) }
        registration.reschedule()
        return 0
      }
      sends.queue.failed(reported.during("send"))
    } else {
      sends.queue.failed(failure(error, gathered.first.address, gathered.first.count))
    }
    return 1
  }

  /// Sends long datagrams one by one from now on, if the kernel refuses to divide the first message of the batch.
  ///
  /// The kernel refuses if the datagrams are longer than a packet of the path, because it divides a message, but no datagram. It also
  /// refuses if the path cannot do it, for example because of IPsec.
  ///
  /// - Returns: Whether to try again.
  private func lowerSegmentLimit(_ index: Int, after error: SystemError) -> Bool {
    guard error.refusesSegments, let size = registration.reactor.datagramBatch?.firstSegmentSize else { return false }
    segmentLimits[index] = error.errno == Errno.inputOutput ? 0 : min(segmentLimits[index], size - 1)
    return true
  }
}

extension SystemError {
  /// Whether this may be the answer to a message of several datagrams only. The kernel's version decides which of the first two it is.
  fileprivate var refusesSegments: Bool {
    [Errno.messageTooLong, Errno.invalidArgument, Errno.inputOutput].contains(errno)
  }

  /// Whether there is temporarily no room, in a buffer or on an interface.
  fileprivate var isShortage: Bool { errno == Errno.noBuffers || errno == Errno.noMemory }
}
