internal import ActorSockets
internal import SocketSystem

/// A device on the way between two hosts that watches TCP connections: a NAT, a firewall or a load balancer.
///
/// ```swift
/// simulation.setMiddlebox(.forgetsIdle(after: .seconds(300)), between: client, and: server)
/// ```
///
/// It lets datagrams pass.
public struct Middlebox: Hashable, Sendable {
  /// The treatment of packets of a connection that a middlebox does not know.
  public enum Unknown: Hashable, Sendable {
    /// Drops it without an answer to its sender.
    case drop
    /// Drops it, and resets its sender's end of the connection.
    case reset
  }

  enum Kind: Hashable {
    case forgetsIdle(after: Int64, Unknown)
    case dropsData
  }

  let kind: Kind

  /// Returns a middlebox that knows a connection from its first packet on, and forgets it when no packet has passed for a time, in either
  /// direction. Like a device that was restarted, it does not know connections that are older than itself.
  ///
  /// If keep-alive sends probes more often, the connection is not forgotten: ``TCPConnection/Liveness``.
  ///
  /// - Parameters:
  ///   - time: The time without a packet after which it forgets a connection.
  ///   - unknown: The treatment of packets of connections that it never knew, or has forgotten.
  /// - Returns: The middlebox.
  public static func forgetsIdle(after time: Duration, then unknown: Unknown = .drop) -> Middlebox {
    Middlebox(kind: .forgetsIdle(after: time.clampedNanoseconds, unknown))
  }

  /// A middlebox that lets connections be made, and drops everything that they carry. So a peer seems to accept, but never answers.
  public static let dropsData = Middlebox(kind: .dropsData)
}

extension Simulation {
  /// Puts a middlebox on the way between two hosts, for both directions. It replaces an earlier one. Within the simulated program only.
  ///
  /// - Parameters:
  /// - middlebox: The middlebox; `nil` for no middlebox.
  ///   - one: A host.
  ///   - other: The other host.
  public func setMiddlebox(_ middlebox: Middlebox?, between one: SimulatedHost, and other: SimulatedHost) {
    let thread = VirtualThread.required
    thread.network.links.setMiddlebox(middlebox, between: one.number, and: other.number)
    thread.noteMiddlebox(middlebox, between: one.number, and: other.number)
  }
}
