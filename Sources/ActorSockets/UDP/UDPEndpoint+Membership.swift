public import SocketSystem

extension UDPEndpoint {
  /// A multicast group that an endpoint has joined, on one interface.
  ///
  /// It refers to what was joined, and not to the name of the interface. So it can be left when the interface is gone, or when another
  /// interface has its name:
  ///
  /// ```swift
  /// let membership = try await endpoint.join(group, on: "eth0")
  /// // …
  /// try await membership.leave()
  /// ```
  ///
  /// It holds the endpoint. When it is dropped, the endpoint stays in the group.
  public struct Membership: Sendable, Hashable {
    /// The endpoint.
    public let endpoint: UDPEndpoint
    /// The group.
    public let group: IPAddress
    /// The only host whose datagrams are wanted; `nil` for any.
    public let source: IPAddress?
    /// The index of the interface, also if the routing table has selected it. `nil` if that interface was gone before the endpoint could
    /// find out which one it was.
    public let interfaceIndex: UInt32?
    private let id: UInt64

    init(_ endpoint: UDPEndpoint, _ joined: JoinedGroup) {
      self.endpoint = endpoint
      group = joined.group
      source = joined.source
      interfaceIndex = joined.interface == 0 ? nil : joined.interface
      id = joined.id
    }

    /// Leaves the group. The interface may be gone. If the group was joined for several sources on an interface that is gone, the
    /// endpoint leaves it for all of them.
    ///
    /// It does nothing if the endpoint has already left the group, by this method or by ``UDPEndpoint/leave(_:on:source:)``. It also does
    /// nothing if ``UDPEndpoint/join(_:on:source:)`` has dropped the membership because its interface is gone. Joining the group again
    /// creates another membership.
    ///
    /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
    ///
    /// *Cancellation* has no effect.
    ///
    /// - Throws: ``SocketError``: `.closed`, or the kernel's error.
    public func leave() async throws { try await endpoint.leave(id) }
  }
}
