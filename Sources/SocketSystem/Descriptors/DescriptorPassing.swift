internal import CLinux
import Glibc

// Descriptors that go from one process to another through a unix socket: unix(7), SCM_RIGHTS.

extension Socket {
  /// sendmsg(2) with MSG_NOSIGNAL: the bytes, of which there is at least one, and a descriptor that goes with the first.
  package func send(_ bytes: Span<UInt8>, passing descriptor: borrowing Descriptor) -> Transfer {
    let passed = descriptor.number
    // SAFETY: the pointer is valid for the span's count during the call, which only reads.
    let sent = unsafe bytes.withUnsafeBytes { buffer in
      retryingInterrupts {
        guard let start = buffer.baseAddress else { return -Int(EINVAL) }
        return unsafe clinux_send_descriptor(number, start, UInt(buffer.count), passed)
      }
    }
    return Self.transfer(sent, "sendmsg")
  }
}

/// The descriptors that go or came with a datagram.
///
/// Invariant: this bundle is the only owner of each descriptor until it is taken or closed. The rest is closed with the last
/// reference.
package final class DescriptorBundle: Sendable {
  private let open: Guarded<[Int32]>

  /// Takes ownership of open descriptors.
  package init(owning numbers: [Int32] = []) { open = Guarded(numbers) }

  deinit { closeAll() }

  /// The numbers of those that are left, in order.
  package var numbers: [Int32] { open.withLock { $0 } }

  /// Adds a descriptor behind the others.
  package func append(_ descriptor: consuming Descriptor) {
    let number = descriptor.release()
    open.withLock { $0.append(number) }
  }

  /// Takes the first descriptor out; `nil` if no descriptor is left.
  package func takeFirst() -> Descriptor? {
    guard let number = open.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else { return nil }
    return Descriptor(owning: number)
  }

  /// Moves all descriptors to a new bundle.
  package func takeAll() -> DescriptorBundle {
    DescriptorBundle(
      owning: open.withLock { numbers in
        defer { numbers = [] }
        return numbers
      })
  }

  /// Closes those that are left.
  package func closeAll() {
    let numbers = open.withLock { numbers in
      defer { numbers = [] }
      return numbers
    }
    for number in numbers { _ = close(number) }
  }
}

/// The descriptors that came with the bytes received so far, and that nobody has taken.
///
/// Invariants:
/// - Each descriptor has one owner: this, until it is taken or closed.
/// - No more wait than the maximum. A peer that passes more has broken the protocol, and what it says with the next ones would
///   be taken for something else: those that are too many are closed, and nothing is received any more. The same if the
///   kernel had to drop some because the process may have no more.
package final class DescriptorInbox {
  private let maximum: Int
  private var numbers: [Int32] = []
  private var failure: SystemError?

  /// Room for so many.
  package init(maximum: Int) { self.maximum = maximum }

  deinit { for number in numbers { _ = close(number) } }

  /// How many wait.
  package var count: Int { numbers.count }

  /// The first that came.
  package func take() -> Descriptor? { numbers.isEmpty ? nil : Descriptor(owning: numbers.removeFirst()) }

  /// recvmsg(2) into `memory`.
  func receive(from socket: Socket, into memory: UnsafeMutableRawBufferPointer) -> Transfer {
    if let failure { return .failed(failure) }
    var came: Int32 = 0
    var isTruncated: Int32 = 0
    let most = Int(CLINUX_MAXIMUM_DESCRIPTORS)
    // SAFETY: the caller's memory is valid for its count, and the array on the stack for as many descriptors as can come.
    let received = unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: most) { descriptors in
      guard let first = descriptors.baseAddress else { return -Int(ENOMEM) }
      let received = retryingInterrupts {
        unsafe clinux_receive_descriptors(
          socket.number, memory.baseAddress, UInt(memory.count), first, &came, &isTruncated)
      }
      for index in 0..<Int(came) { unsafe keep(descriptors[index]) }
      return received
    }
    if isTruncated != 0, failure == nil { failure = SystemError(call: "recvmsg", errno: EMFILE) }
    return Socket.transfer(received, "recvmsg")
  }

  private func keep(_ number: Int32) {
    if numbers.count < maximum, failure == nil { return numbers.append(number) }
    failure = SystemError(call: "recvmsg", errno: ETOOMANYREFS)
    _ = close(number)
  }
}
