internal import EpollReactor
internal import SocketSystem
internal import Synchronization

// Lets threads other than the reactor's send a datagram themselves. Their calls then need no hop to the endpoint and no hop back, which
// takes three times as long as the send.
//
//              a send that hopped left at once
//   closed ────────────────────────────────────▶ open
//      ▲                                           │ something that a datagram may not pass by: see `closeGate`;
//      └───────────────────────────────────────────┘ the kernel did not take a datagram; `most` datagrams were sent
//
// Only the reactor's thread opens the gate. Every thread that finds it closed hops, and the endpoint's isolation decides.
//
// Invariants:
// - While the gate is open, the endpoint has no send that waits, no error to report, no filter for sends, no capture,
//   and is not closing.
// - A thread sends while it holds the lock. So when `close` has returned, no other thread uses the sockets any more, and the endpoint may
//   close or connect them.
// - A datagram passes only if all queued calls of the endpoint are settled (`AdmissionOrder`): a call that was made earlier is done, or has
//   closed the gate.
// - A datagram that the kernel did not take is the endpoint's again. The call takes the kernel's error to the endpoint, where it counts as
//   the first attempt, because the kernel may return an error once: one about an earlier datagram, or that of a unix peer that is gone. But
//   if the endpoint finds the error in the error queue first, the call must not report it again. So the endpoint closes the gate before it
//   looks there.

/// What became of a datagram before its call hops.
@usableFromInline enum SendAttempt: Equatable, Sendable {
  case sent
  case notSent
  /// The kernel returned an error: see `SendGate.takeFailure`.
  case failed(number: UInt64)
}

final class SendGate: Sendable {
  private let state = Locked(State())
  /// Whether the state is open, or will be closed by the thread that holds the lock. So a thread that need not send needs no lock.
  private let isOpen = Atomic<Bool>(false)
  private let hasFailures = Atomic<Bool>(false)

  // MARK: Any thread

  /// Sends a datagram, unless the gate is closed or the kernel does not take it at once.
  func send(_ bytes: Span<UInt8>, to address: SocketAddress?, isReply: Bool) -> SendAttempt {
    if !isOpen.load(ordering: .relaxed) { return .notSent }
    return state.withLock { state in
      guard bytes.count <= state.longest, let (socket, destination) = state.way(to: address, isReply: isReply) else {
        return .notSent
      }
      let attempt = state.attempted(socket.send(bytes, to: destination))
      if case .failed = attempt { hasFailures.store(true, ordering: .relaxed) }
      // Last, because the endpoint takes no lock if it finds the gate closed.
      if !state.isOpen { isOpen.store(false, ordering: .releasing) }
      return attempt
    }
  }

  // MARK: The reactor's thread

  /// `longest` is the size of the longest datagram that may pass, in bytes.
  func open(_ routes: DatagramRoutes, longest: Int) {
    if isOpen.load(ordering: .relaxed) { return }
    let sockets = routes.sockets.map(\.socket)
    state.withLock {
      $0.open(routes, sockets, longest: longest)
      isOpen.store(true, ordering: .relaxed)
    }
  }

  /// Returns whether it was open.
  func close() -> Bool {
    if !isOpen.load(ordering: .acquiring) { return false }
    state.withLock {
      $0.close()
      isOpen.store(false, ordering: .relaxed)
    }
    return true
  }

  /// Returns what was sent since the last call.
  func takeCounts() -> Counts { state.withLock { $0.takeCounts() } }

  /// Returns the error of an attempt, unless it was forgotten meanwhile.
  func takeFailure(of attempt: SendAttempt) -> SystemError? {
    guard case .failed(let number) = attempt else { return nil }
    return state.withLock { $0.takeFailure(number) }
  }

  /// The errors of attempts that no call has taken were reported, or are about another peer.
  func forgetFailures() {
    if !hasFailures.load(ordering: .relaxed) { return }
    state.withLock {
      $0.forgetFailures()
      hasFailures.store(false, ordering: .relaxed)
    }
  }

  struct Counts: Equatable {
    var datagrams: UInt64 = 0
    var bytes: UInt64 = 0
  }

  /// What the gate decides, without a lock, an atomic or a system call.
  struct State: Sendable {
    private var routes: DatagramRoutes?
    /// Those of the routes.
    private var sockets: [BorrowedDescriptor?] = []
    private(set) var longest = 0
    private var left = 0
    private var counts = Counts()
    /// Those that no call has taken.
    private var failures: [(number: UInt64, error: SystemError)] = []
    private var lastNumber: UInt64 = 0

    /// The datagrams that may be sent until one hops. So a loop that sends gives other tasks of the pool their turn.
    static var most: Int { 64 }

    var isOpen: Bool { routes != nil }

    mutating func open(_ routes: DatagramRoutes, _ sockets: [BorrowedDescriptor?], longest: Int) {
      self.routes = routes
      self.sockets = sockets
      self.longest = longest
      left = Self.most
    }

    mutating func close() {
      routes = nil
      sockets = []
    }

    /// `nil` if the endpoint's isolation must send the datagram, or say why it cannot be sent.
    func way(to address: SocketAddress?, isReply: Bool) -> (socket: BorrowedDescriptor, destination: SocketAddress?)? {
      guard let route = try? routes?.route(address, isReply: isReply), let socket = sockets[route.index] else {
        return nil
      }
      return (socket, route.destination)
    }

    mutating func attempted(_ result: Transfer) -> SendAttempt {
      switch result {
      case .bytes(let count):
        counts.datagrams += 1
        counts.bytes += UInt64(count)
        left -= 1
        if left == 0 { close() }
        return .sent
      case .wouldBlock:
        close()
        return .notSent
      case .failed(let error):
        close()
        lastNumber += 1
        failures.append((lastNumber, error))
        return .failed(number: lastNumber)
      }
    }

    mutating func takeCounts() -> Counts {
      defer { counts = Counts() }
      return counts
    }

    mutating func takeFailure(_ number: UInt64) -> SystemError? {
      failures.firstIndex { $0.number == number }.map { failures.remove(at: $0).error }
    }

    mutating func forgetFailures() { failures = [] }
  }
}
