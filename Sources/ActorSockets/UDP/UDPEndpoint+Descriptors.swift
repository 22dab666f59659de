internal import EpollReactor
public import SocketSystem

// Passing descriptors with datagrams of unix sockets: unix(7), SCM_RIGHTS.
//
// A datagram shares its descriptors with all its copies. A send moves them out of the datagram at the call, so that from then on the entry
// in the send queue is their only owner. They are closed when the kernel has taken the datagram, or with the entry when the send fails or
// is cancelled. Received descriptors belong to the datagram that they came with, and are closed with it.

extension Datagram {
  /// Passes a descriptor along when the datagram is sent: sendmmsg(2) with SCM_RIGHTS, unix(7).
  ///
  /// The endpoint that sends it must have a unix socket. At most 253 descriptors go with a datagram, and they arrive in the
  /// order in which they were added. The descriptors go with the first send of the datagram or of a copy of it. That send
  /// always closes this process's copies: after the kernel has taken the datagram, or when the send fails or is cancelled. If
  /// the datagram is never sent, its descriptors are closed with its last copy.
  ///
  /// - Parameter descriptor: The descriptor to pass.
  public mutating func pass(_ descriptor: consuming OwnedDescriptor) {
    let bundle = descriptors ?? DescriptorBundle()
    bundle.append(descriptor)
    descriptors = bundle
  }

  /// Takes the next descriptor that came with the datagram, in the order in which they were passed.
  ///
  /// An endpoint receives descriptors only if ``UDPEndpoint/Configuration/descriptorsPerDatagram`` is more than 0. Copies of a
  /// datagram share its descriptors. Descriptors that are not taken are closed with its last copy.
  ///
  /// - Returns: The descriptor, which the caller then owns; `nil` if no descriptor is left.
  public func takeDescriptor() -> OwnedDescriptor? { descriptors?.takeFirst() }

  /// Returns a copy to be sent, and moves the descriptors to it: all other copies lose them.
  func claimingDescriptors() -> Datagram {
    guard let descriptors else { return self }
    var claimed = self
    claimed.descriptors = descriptors.takeAll()
    return claimed
  }
}

extension UDPEndpoint {
  /// Sends a datagram, and passes a descriptor to its receiver: sendmmsg(2) with SCM_RIGHTS, unix(7). Returns when the kernel
  /// has taken the datagram.
  ///
  /// The endpoint must have a unix socket. The send always closes this process's copy of the descriptor: after the kernel has
  /// taken the datagram, or when the send fails or is cancelled. ``Datagram/pass(_:)`` passes several descriptors.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - descriptor: The descriptor to pass.
  ///   - address: The destination; `nil` for the connected peer.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: ``SocketError``: `.invalidArgument` if the socket is not a unix socket; `.limitExceeded` if the process's user
  ///   has more descriptors in flight than RLIMIT_NOFILE allows; the errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``;
  ///   `CancellationError` when the task is cancelled.
  public func send(
    _ bytes: [UInt8], passing descriptor: consuming OwnedDescriptor, to address: SocketAddress? = nil,
    timeout: Timeout? = nil
  ) async throws {
    var datagram = Datagram(bytes, to: address)
    datagram.pass(descriptor)
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let operation = try sending(datagram, timeout, place) { try await finish(operation) }
  }

  func checked(_ descriptors: DescriptorBundle?, through index: Int) throws(SocketError) -> DescriptorBundle? {
    guard let descriptors else { return nil }
    let count = descriptors.numbers.count
    if count == 0 { return nil }
    if core.routes.sockets[index].kind != .unix { throw .invalid("send", "only a unix socket passes descriptors") }
    if count > DatagramBatch.maximumDescriptors {
      throw .invalid("send", "\(count) descriptors cannot go with a datagram, only \(DatagramBatch.maximumDescriptors)")
    }
    return descriptors
  }

  /// Takes the descriptors that came with a datagram of a batch, and closes those beyond the configuration's limit.
  func receivedDescriptors(_ number: Int, of batch: DatagramBatch) -> (kept: DescriptorBundle?, someAreLost: Bool) {
    if !core.isUnix { return (nil, false) }
    return batch.takeDescriptors(number, atMost: configuration.descriptorsPerDatagram)
  }
}
