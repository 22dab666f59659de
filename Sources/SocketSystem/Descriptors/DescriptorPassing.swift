import Glibc

/// The descriptors that are sent or were received with a datagram through a unix socket: unix(7), SCM_RIGHTS. The bundle is the only
/// owner of each descriptor until the descriptor is taken or closed. Those that are left are closed with the last reference to the
/// bundle.
package final class DescriptorBundle: Sendable {
  private let open: Locked<[Int32]>

  package init(owning numbers: [Int32] = []) {
    assert(numbers.allSatisfy { $0 >= 0 }, "a descriptor is never negative")
    open = Locked(numbers)
  }

  /// Takes ownership of descriptors that a call has just received, as `OwnedDescriptor.init(new:)` does. If one of them cannot be moved,
  /// it is closed with those after it, as the kernel closes those for which there is no number. `kept` is `nil` if no descriptor was
  /// received.
  static func receiving(_ numbers: [Int32], someAreLost: Bool) -> (kept: DescriptorBundle?, someAreLost: Bool) {
    if numbers.isEmpty { return (nil, someAreLost) }
    let bundle = DescriptorBundle()
    var isShort = false
    for number in numbers {
      if let descriptor = try? OwnedDescriptor(new: number) {
        if !isShort { bundle.append(descriptor) }
      } else {
        isShort = true
      }
    }
    return (bundle, someAreLost || isShort)
  }

  deinit { closeAll() }

  /// In order.
  package var numbers: [Int32] { open.withLock { $0 } }

  package func append(_ descriptor: consuming OwnedDescriptor) {
    let number = descriptor.release()
    open.withLock { $0.append(number) }
  }

  package func takeFirst() -> OwnedDescriptor? {
    guard let number = open.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else { return nil }
    return OwnedDescriptor(owning: number)
  }

  package func takeAll() -> DescriptorBundle {
    DescriptorBundle(
      owning: open.withLock { numbers in
        defer { numbers = [] }
        return numbers
      })
  }

  package func closeAll() {
    let numbers = open.withLock { numbers in
      defer { numbers = [] }
      return numbers
    }
    for number in numbers { _ = OwnedDescriptor(owning: number) }
  }
}

/// The descriptors that came with the bytes received so far and are not taken yet.
///
/// Invariants:
/// - Each descriptor has one owner: the inbox, until the descriptor is taken or closed.
/// - At most `maximum` descriptors wait. If a peer passes more, it violates the protocol, and the descriptors that follow could be
///   mistaken for the missing ones. So the inbox closes those beyond the maximum, and every later receive fails. The same happens if the
///   kernel drops some because the process may open no more.
package final class DescriptorInbox {
  private let maximum: Int
  private var numbers: [Int32] = []
  private var failure: SystemError?

  package init(maximum: Int) { self.maximum = maximum }

  deinit { for number in numbers { _ = OwnedDescriptor(owning: number) } }

  package var count: Int { numbers.count }

  package func take() -> OwnedDescriptor? { numbers.isEmpty ? nil : OwnedDescriptor(owning: numbers.removeFirst()) }

  /// Receives bytes into `memory`, and descriptors into the inbox: recvmsg(2).
  func receive(from socket: BorrowedDescriptor, into memory: UnsafeMutableRawBufferPointer) -> Transfer {
    if let failure { return .failed(failure) }
    // SAFETY: the caller's memory is valid for its count during the call.
    let (received, rights) = unsafe appending(to: memory) { output in
      CurrentSystem.of(socket.number) { $0.receive(socket.number, into: &output) }
    }
    for number in rights.numbers { keep(number) }
    if rights.areTruncated { someWereLost() }
    return BorrowedDescriptor.transfer(received, "recvmsg")
  }

  /// The kernel has dropped descriptors, or there was no number to move one to.
  private func someWereLost() {
    if failure == nil { failure = SystemError(call: "recvmsg", errno: EMFILE) }
  }

  private func keep(_ number: Int32) {
    assert(number >= 0 && numbers.count <= maximum)
    guard let descriptor = try? OwnedDescriptor(new: number) else { return someWereLost() }
    if numbers.count < maximum, failure == nil { return numbers.append(descriptor.release()) }
    if failure == nil { failure = SystemError(call: "recvmsg", errno: ETOOMANYREFS) }
  }
}
