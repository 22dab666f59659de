public import EpollReactor
internal import SocketSystem

/// A reactor with real sockets, whose system calls fail as a test wants.
///
/// ```swift
/// let injection = FaultInjection([.shortReads(probability: 0.5), .shortWrites(probability: 0.5)], seed: 7)
/// let listener = try TCPListener.bind(to: .port(8080), reactor: injection.reactor)
/// ```
///
/// Use it for what a `Simulation` does not have: real peers, processes and the kernel's own behaviour. There, `SimulatedHost.setFaults(_:)`
/// has the same faults.
///
/// The faults hit the sockets that connections, listeners and datagram endpoints of ``reactor`` make and accept: TCP, TLS included, UDP,
/// and unix sockets for streams and datagrams. They hit neither sockets that were adopted, nor connections that a listener hands to other
/// reactors. Names are looked up as always.
///
/// - A call that sends or receives several datagrams is one call. If a fault hits it, no datagram moves. The transfers of datagrams are
///   never short, because a datagram is sent and received whole.
/// - Descriptors are passed through unix sockets as always. A send that fails passes no descriptor. A short send passes
///   them with its first byte.
/// - Names of unix sockets are files of the system, as always.
///
/// The seed decides which calls are hit, in the order of the calls. Threads and the kernel decide that order, so two runs with the same
/// seed can differ.
public final class FaultInjection: Sendable {
  /// The reactor. Pass it to the connections and listeners of the test.
  public let reactor: Reactor
  private let faults: Faults
  private let seeds: Locked<SplitMix>

  /// Creates a reactor with its own thread, and with faults.
  ///
  /// - Parameters:
  ///   - faults: The faults. With an empty array, no call fails.
  ///   - seed: The seed that decides which calls the faults hit.
  /// - Throws: `SystemError` if the process has no descriptor or thread left.
  public init(_ faults: [CallFault] = [], seed: UInt64 = 0) throws {
    var random = SplitMix(seed: seed)
    self.faults = Faults(FaultPlan(faults, seed: random.next()))
    seeds = Locked(random)
    reactor = try Reactor(orThrow: FaultySystem(self.faults, over: Linux()))
  }

  /// Lets system calls fail from now on. Safe to call from any thread.
  ///
  /// - Parameter faults: The faults, which replace earlier ones. With an empty array, no call fails any more.
  public func setFaults(_ faults: [CallFault]) {
    self.faults.setPlan(FaultPlan(faults, seed: seeds.withLock { $0.next() }))
  }

  /// Limits the number of sockets that the reactor has open, listeners included: making or accepting one more fails with EMFILE until
  /// another one is closed. Sockets that are open already stay. Safe to call from any thread.
  ///
  /// - Parameter descriptors: The number, at least 0; `nil` for no limit but the one of the process.
  public func setLimits(descriptors: Int?) { faults.setLimit(descriptors ?? .max) }
}
