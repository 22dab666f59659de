internal import EpollReactor
internal import SocketSystem

/// A listener with the handler of its connections, to serve several listeners as one server.
///
/// ```swift
/// let report = try await [
///   ServedListener(plain) { connection in try await redirect(connection) },
///   ServedListener(encrypted, tls: context) { connection in try await answer(connection) },
/// ].serve(.init(stopOn: [.terminate, .interrupt]))
/// ```
public struct ServedListener: Sendable {
  private let listener: any StreamListener
  private let serve: @Sendable (ServeOptions, ReactorBound<ServeGroup>) async throws -> ServeReport

  /// Creates an entry of a list that is served together. The connections are served as by ``StreamListener/serve(_:handler:)``.
  ///
  /// - Parameters:
  ///   - listener: The listener. All listeners of the list must have the same reactor.
  ///   - handler: Serves one connection.
  public init<Listener: StreamListener>(
    _ listener: Listener, handler: @escaping @concurrent @Sendable (Listener.Connection) async throws -> Void
  ) {
    self.init(listener, .concurrent(handler))
  }

  /// Creates an entry of a list that is served together. The connections are served as by ``StreamListener/serve(_:isolatedHandler:)``.
  ///
  /// - Parameters:
  ///   - listener: The listener. All listeners of the list must have the same reactor.
  ///   - handler: Serves one connection, in the isolation of the connection.
  @_disfavoredOverload
  public init<Listener: StreamListener>(
    _ listener: Listener,
    isolatedHandler handler: @escaping @Sendable (isolated Listener.Connection) async throws -> Void
  ) {
    self.init(listener, .isolated(handler))
  }

  private init<Listener: StreamListener>(_ listener: Listener, _ handler: _ServeRequest<Listener.Connection>.Handler) {
    self.listener = listener
    serve = { options, group in
      try await listener._serve(ServeRequest(options: options, handler: handler, group: group))
    }
  }

  fileprivate static func serve(_ all: [ServedListener], _ options: ServeOptions) async throws -> ServeReport {
    guard let reactor = all.first?.listener.executor.reactor else {
      throw SocketError.invalid("serve", "there is no listener")
    }
    try options.check()
    let listeners = all.compactMap { $0.listener as? any ServingListener }
    if Set(listeners.map(ObjectIdentifier.init)).count < all.count {
      throw SocketError.invalid("serve", "a listener is in the list twice")
    }
    if listeners.contains(where: { $0.executor.reactor !== reactor }) {
      throw SocketError.invalid("serve", "listeners that are served together need the same reactor")
    }
    let reactors = listeners.contains { $0.sharesReactors } ? try options.startReactors(beside: reactor) : []
    let group = ReactorBound(ServeGroup(listeners, limit: options.limits.connections, reactors), on: reactor)
    let result = await withTaskGroup(of: Result<ServeReport, any Error>.self) {
      tasks -> Result<ServeReport, any Error> in
      for served in all {
        tasks.addTask {
          do { return .success(try await served.serve(options, group)) } catch { return .failure(error) }
        }
      }
      var (report, failure): (ServeReport, (any Error)?) = (ServeReport(), nil)
      for await result in tasks {
        switch result {
        case .success(let part): report.add(part)
        case .failure(let error):
          failure = failure ?? error
          tasks.cancelAll()
        }
      }
      return failure.map { .failure($0) } ?? .success(report)
    }
    return try result.get()
  }
}

extension Collection where Element == ServedListener {
  /// Serves several listeners as one server: with one limit of connections, one drain and one report.
  ///
  /// It serves each listener as ``StreamListener/serve(_:handler:)`` does. ``ServeLimits`` apply to the connections of all listeners
  /// together. When connections wait at several listeners, these accept in turn as room becomes available. A listener that is drained by
  /// itself stops; the others go on.
  ///
  /// *Signals* and *cancellation* drain all listeners. If one listener fails or is closed, the others are drained, too, and the error is
  /// thrown in place of a report. *Ordering*: it takes its place among the calls of each listener in the order in which they were made.
  ///
  /// - Parameter options: The limits, the drain, the signals, and the other settings.
  /// - Returns: The sums of the reports of all listeners.
  /// - Throws: The errors of ``StreamListener/serve(_:handler:)``, the first one if several listeners fail. `.invalidArgument` if the
  ///   collection is empty, has a listener twice, or has listeners of different reactors.
  @discardableResult
  public nonisolated(nonsending) func serve(_ options: ServeOptions = .init()) async throws -> ServeReport {
    try await ServedListener.serve(Array(self), options)
  }
}

extension Collection where Element: StreamListener {
  /// Serves several listeners as one server: with one limit of connections, one drain and one report.
  ///
  /// ```swift
  /// try await TCPListener.activated().serve { connection in … }
  /// ```
  ///
  /// To give listeners different handlers, or to encrypt the connections of some, use ``ServedListener``.
  ///
  /// *Cancellation* and *ordering* are those of a collection of ``ServedListener``.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings.
  ///   - handler: Serves one connection.
  /// - Returns: The sums of the reports of all listeners.
  /// - Throws: The errors of a collection of ``ServedListener``.
  @discardableResult
  public nonisolated(nonsending) func serve(
    _ options: ServeOptions = .init(),
    handler: @escaping @concurrent @Sendable (Element.Connection) async throws -> Void
  ) async throws -> ServeReport {
    try await map { ServedListener($0, handler: handler) }.serve(options)
  }

  /// Serves several listeners as one server, and runs each handler in the isolation of its connection, on the reactor's thread.
  ///
  /// *Cancellation* and *ordering* are those of a collection of ``ServedListener``.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings. Its `executor` is not used.
  ///   - handler: Serves one connection.
  /// - Returns: The sums of the reports of all listeners.
  /// - Throws: The errors of a collection of ``ServedListener``.
  @discardableResult
  @_disfavoredOverload
  public nonisolated(nonsending) func serve(
    _ options: ServeOptions = .init(),
    isolatedHandler handler: @escaping @Sendable (isolated Element.Connection) async throws -> Void
  ) async throws -> ServeReport {
    try await map { ServedListener($0, isolatedHandler: handler) }.serve(options)
  }
}
