import Glibc

// The reserve is the highest descriptor numbers below the process's limit. Accepted and connecting sockets leave them to the rest of the
// program.
//
// The reason: a process without free descriptors can do little. It cannot open a file or look up a name. Swift's thread pool even ends
// the process, because libdispatch opens files of its own while it runs, and traps if it cannot. A peer must not be able to cause this.
//
// The kernel gives a new descriptor the lowest free number. So if a new number is in the reserve, all numbers below the reserve are in
// use. Comparing the number costs no system call. The limit may have been raised since it was read. It is read again only when a number
// seems to be in the reserve.

package struct DescriptorReserve: Equatable, Sendable {
  package static let largest = 32

  /// One more than the highest number that a descriptor may have.
  package let limit: Int

  package init(limit: Int) { self.limit = limit }

  private var count: Int { min(Self.largest, limit / 4) }
  package var first: Int { limit - count }

  package func contains(_ number: Int32) -> Bool { Int(number) >= first }

  /// The connections that fit if the rest of the program opens as many descriptors as the reserve has.
  package var connections: Int { max(1, first - count) }
}

// MARK: - The program whose code runs

extension DescriptorReserve {
  /// Reads the program's soft limit, which may have changed: getrlimit(2) of RLIMIT_NOFILE.
  @discardableResult
  package static func refresh() -> DescriptorReserve {
    DescriptorReserve(limit: CurrentSystem.calls.readDescriptorLimit())
  }

  /// Makes a system call only if the descriptor seems to be in the reserve.
  package static func isReserved(by number: Int32) -> Bool { CurrentSystem.of(number) { $0.isReserved(number) } }
}

extension BorrowedDescriptor {
  /// Whether the next descriptor of the program would leave the reserve free: fcntl(2) with F_DUPFD_CLOEXEC, close(2).
  package var leavesReserve: Bool { CurrentSystem.of(number) { $0.leavesReserve(number) } }
}

extension OwnedDescriptor {
  /// A nonblocking stream socket that child processes do not inherit. Throws EMFILE if only the reserve is left.
  package static func connectingSocket(family: Int32) throws(SystemError) -> OwnedDescriptor {
    let descriptor = try streamSocket(family: family)
    if DescriptorReserve.isReserved(by: descriptor.number) { throw SystemError(call: "socket", errno: EMFILE) }
    return descriptor
  }
}
