internal import EpollReactor
public import SocketSystem

/// How a listener serves its connections.
///
/// ```swift
/// var options = ServeOptions(drain: .within(.seconds(10)), stopOn: [.terminate, .interrupt])
/// options.limits.connectionsPerPeer = 100
/// try await listener.serve(options) { connection in … }
/// ```
public struct ServeOptions: Sendable, Configurable {
  /// How many connections to handle at a time.
  public var limits: ServeLimits
  /// How long handlers may continue when the server stops.
  public var drain: Drain
  /// Where the handlers run. A handler that is isolated to its connection runs on the connection's reactor, whatever this says.
  public var executor: HandlerExecutor
  /// The number of reactors that share the connections of a ``TCPListener``, 1 to 256: the listener's own, and new ones, which get its
  /// observer. With more than one, several cores do the work of the sockets. Connections are assigned to the reactors in turn. Connections
  /// in memory always run on the reactor of their listener.
  public var reactors: Int
  /// The signals that stop the server, for example `[.terminate, .interrupt]`. See ``ProcessSignals`` for how they are taken over.
  public var stopSignals: Set<ProcessSignal>
  /// Called with each error that a handler throws, and with each connection whose handler is not called: its handshake failed, a load
  /// balancer sent no valid header, or the client that the header names has too many connections. It is called in the handler's task,
  /// before `serve` returns, but not for handlers that were cancelled because the drain was over. With `nil`,
  /// ``ServeFailure/printUnlessExpected()`` is called. `{ _ in }` turns that off.
  public var onFailure: (@Sendable (ServeFailure) -> Void)?

  /// Creates options with their defaults.
  public init() { self.init(limits: .init()) }

  /// Creates options.
  ///
  /// - Parameters:
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops; 30 seconds by default.
  ///   - executor: Where the handlers run.
  ///   - reactors: The number of reactors that share the connections, 1 to 256.
  ///   - signals: The signals that stop the server; empty by default.
  ///   - onFailure: Called with each error of a handler or a handshake; `nil` to print those that no peer caused.
  public init(
    limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)), on executor: HandlerExecutor = .pool,
    reactors: Int = 1, stopOn signals: Set<ProcessSignal> = [], onFailure: (@Sendable (ServeFailure) -> Void)? = nil
  ) {
    self.limits = limits
    self.drain = drain
    self.executor = executor
    self.reactors = reactors
    stopSignals = signals
    self.onFailure = onFailure
  }

  func check() throws(SocketError) {
    if limits.connections < 1 {
      throw .invalid("serve", "\(limits.connections) connections are too few to serve anybody")
    }
    if let perPeer = limits.connectionsPerPeer, perPeer < 1 {
      throw .invalid("serve", "\(perPeer) connections of each peer are too few to serve anybody")
    }
    if !(1...256).contains(reactors) {
      throw .invalid("serve", "\(reactors) is not a valid number of reactors; the range is 1 to 256")
    }
  }

  /// Returns the reactors that share the connections; empty if there is only this one.
  func startReactors(beside reactor: Reactor) throws -> [Reactor] {
    if reactors == 1 { return [] }
    return try [reactor]
      + (1..<reactors).map { _ in
        let other = try Reactor.start()
        other.observer = reactor.observer
        return other
      }
  }
}

/// Where the handlers of a listener's connections run.
public enum HandlerExecutor: Sendable {
  /// On Swift's pool of threads. A handler may compute or block without holding up any socket.
  ///
  /// The handlers prefer the ``WorkerPool``, unless the task that calls `serve` has a priority below medium at that time.
  case pool
  /// On the reactor's thread. A handler and its connection then run on the same thread, which is fastest for short answers. A
  /// handler that blocks stalls every socket of the reactor.
  case reactor
  /// On an executor that a closure chooses for each connection, for example `$0.executor.reactor` or ``WorkerPool/shared``; `nil` for
  /// Swift's pool.
  ///
  /// The closure is called on the reactor's thread for each accepted connection, ahead of a handshake. The connection's addresses are
  /// known, except behind a load balancer (``TCPListener/Configuration/proxyProtocol``), whose header may not have arrived.
  case chosen(by: @Sendable (any ByteStream) -> (any TaskExecutor)?)

  /// The executor of the pool for handlers of the current task. The workers have a high priority, so a task of low priority does not use
  /// them.
  static var workers: (any TaskExecutor)? { Task.currentPriority < .medium ? nil : WorkerPool.shared }

  func choice() -> @Sendable (any ByteStream) -> (any TaskExecutor)? {
    switch self {
    case .pool:
      let workers = Self.workers
      return { _ in workers }
    case .reactor: return { $0.executor.reactor }
    case .chosen(let choose): return choose
    }
  }
}

/// How many connections a server handles at a time.
public struct ServeLimits: Hashable, Sendable {
  /// The largest number of connections at a time. Further ones wait in the kernel's backlog.
  ///
  /// A connection whose handler has returned and whose bytes are sent does not count while it waits for its peer to finish: see
  /// ``ByteStream/close()``. At most 1,000 connections wait so, and fewer if descriptors are short. Beyond that, the one that has waited
  /// longest is closed. If the next connection needs its descriptor, that one still has 100 milliseconds in total to finish, so that its
  /// peer gets what was sent.
  ///
  /// The default is 10,000. If the process may not have that many descriptors (RLIMIT_NOFILE, getrlimit(2)), it is RLIMIT_NOFILE
  /// minus 64, or half of RLIMIT_NOFILE if that is more. Of the descriptors that are left, one half is for files and sockets that the
  /// program opens. The other half is the reserve that ``TCPListener/accept(timeout:)`` describes. Connections do not use up the
  /// reserve, even if you set a larger number.
  public var connections: Int {
    get { chosenConnections ?? min(10_000, DescriptorReserve.refresh().connections) }
    set { chosenConnections = newValue }
  }
  private var chosenConnections: Int?
  /// The largest number of connections of one peer at a time. Further ones are reset. A peer is an IPv4 address, or the /64
  /// network of an IPv6 address. `nil`, the default, for no limit: many people, or a proxy, may share one address.
  ///
  /// Behind a load balancer, the peer is the client that the header names (``TCPListener/Configuration/proxyProtocol``). When the header
  /// arrives, the connection has already been accepted. So a connection that exceeds the limit fails with `.limitExceeded`, and counts
  /// in ``ServeReport/failedByPeer``.
  public var connectionsPerPeer: Int?

  /// Creates limits.
  ///
  /// - Parameters:
  ///   - connections: The largest number of connections at a time, at least 1; `nil` for the default.
  ///   - connectionsPerPeer: The largest number of connections of one peer at a time, at least 1; `nil` for no limit.
  public init(connections: Int? = nil, connectionsPerPeer: Int? = nil) {
    chosenConnections = connections
    self.connectionsPerPeer = connectionsPerPeer
  }
}
