public import EpollReactor
public import SocketSystem

extension NetworkInterface {
  /// Lists the interfaces of this machine: getifaddrs(3).
  ///
  /// ```swift
  /// for interface in try NetworkInterface.all() where interface.isUp && interface.supportsMulticast {
  ///   try await endpoint.join(group, on: .index(interface.index))
  /// }
  /// ```
  ///
  /// In a simulation these are the interfaces of the simulated host, `lo` and `eth0`.
  ///
  /// - Returns: The interfaces in the order of their indexes, also those that are not up or have no address.
  /// - Throws: ``SocketError``: the kernel's error, for example `.tooManyOpenFiles`.
  public static func all() throws(SocketError) -> [NetworkInterface] {
    do {
      return try list()
    } catch {
      throw SocketError(error, operation: "interfaces")
    }
  }

  /// Returns the interfaces of this machine now, and again whenever they have changed: rtnetlink(7).
  ///
  /// ```swift
  /// for try await interfaces in NetworkInterface.changes() {
  ///   print(interfaces.filter(\.isRunning).map(\.name))
  /// }
  /// ```
  ///
  /// Several changes at about the same time may be one element. A program that asks rarely may miss lists, but never the latest
  /// one. The sequence never returns `nil`: the loop ends when the program leaves it, or with an error.
  ///
  /// The interfaces of a simulated host do not change, so a loop in a simulation gets one element and then waits.
  ///
  /// - Parameter reactor: The reactor that watches the interfaces. The lists are those of the network namespace of its thread.
  /// - Returns: The lists. The first call of an iterator opens a descriptor, which all iterators share. It is closed when the sequence and
  ///   its iterators are dropped.
  public static func changes(reactor: Reactor = .shared) -> Changes { Changes(InterfaceMonitor(on: reactor)) }

  /// The lists of the interfaces, one after each change.
  ///
  /// Each iterator returns the current list immediately, and then waits until the list differs from the one that it returned last.
  public struct Changes: AsyncSequence, Sendable {
    /// The element of the sequence: all interfaces.
    public typealias Element = [NetworkInterface]

    private let monitor: InterfaceMonitor

    init(_ monitor: InterfaceMonitor) { self.monitor = monitor }

    /// Returns an iterator.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Iterator { Iterator(monitor) }

    /// Waits for the lists, one after the other.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
      private let monitor: InterfaceMonitor
      private var last: [NetworkInterface]?

      init(_ monitor: InterfaceMonitor) { self.monitor = monitor }

      /// Waits until the interfaces differ from those that the iterator returned last. The first call returns at once.
      ///
      /// *Cancellation* ends the wait with `CancellationError`. The iterator stays usable, and no change is lost.
      ///
      /// *Ordering*: the list is that of the time of the call, or a later one.
      ///
      /// - Returns: All interfaces, as ``NetworkInterface/all()`` returns them. Never `nil`.
      /// - Throws: ``SocketError``: `.reactorShutDown`, or the kernel's error, for example `.tooManyOpenFiles`; the next call then tries
      ///   again. `CancellationError` when the task is cancelled.
      public mutating func next() async throws -> [NetworkInterface]? { try await next(isolation: #isolation) }

      /// Waits until the interfaces differ from those that the iterator returned last, called from any isolation.
      ///
      /// *Cancellation* and *ordering* are those of ``next()``.
      ///
      /// - Parameter actor: The caller's isolation.
      /// - Returns: All interfaces. Never `nil`.
      /// - Throws: The errors of ``next()``.
      public mutating func next(isolation actor: isolated (any Actor)?) async throws -> [NetworkInterface]? {
        let list = try await monitor.next(after: last)
        last = list
        return list
      }
    }
  }
}
