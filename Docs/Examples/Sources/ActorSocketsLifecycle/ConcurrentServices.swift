public import ServiceLifecycle

/// Services that run and shut down at the same time, as one service of a `ServiceGroup`.
///
/// ```swift
/// let servers = ConcurrentServices([ListenerService(plain) { … }, ListenerService(admin) { … }])
/// let group = ServiceGroup(services: [database, servers], gracefulShutdownSignals: [.sigterm], logger: logger)
/// ```
///
/// A `ServiceGroup` shuts down its services one after the other: the next one begins when the last one has ended. Listeners that are
/// services of their own would drain in turn, so the first one of the list still accepts connections while the others drain. Here all
/// drain together, and the shutdown takes as long as the longest drain.
public struct ConcurrentServices: Service {
  private let services: [any Service]

  /// Creates a service that runs others.
  ///
  /// - Parameter services: The services, which do not run yet.
  public init(_ services: [any Service]) { self.services = services }

  /// Runs the services until all have ended.
  ///
  /// *Graceful shutdown* reaches all of them at the same time. *Cancellation* cancels all of them.
  ///
  /// - Throws: The first error of a service; the others are then cancelled.
  public func run() async throws {
    try await withThrowingTaskGroup { group in
      for service in services { group.addTask { try await service.run() } }
      while try await group.next() != nil {}
    }
  }
}
