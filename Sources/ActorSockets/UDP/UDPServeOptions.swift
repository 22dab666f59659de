public import SocketSystem

extension UDPEndpoint {
  /// How an endpoint serves datagrams.
  ///
  /// ```swift
  /// let options = UDPEndpoint.ServeOptions(handlers: 100, overflow: .dropOldest, stopOn: [.terminate, .interrupt])
  /// try await endpoint.serve(options) { datagram in … }
  /// ```
  public struct ServeOptions: Sendable, Configurable {
    /// The largest number of handlers that run at a time, at least 1; 1,000 by default.
    public var handlers: Int
    /// Says what happens to datagrams that arrive while all handlers are busy. They wait in the kernel by default.
    public var overflow: Overflow
    /// The largest number of bytes that may wait in the program for a handler, at least 0; 1 MiB by default. Each datagram counts as its
    /// length plus 256 bytes. Not used with ``Overflow/wait``.
    public var queueBudget: Int
    /// How long handlers may continue when the server stops. ``Drain/IdleReads`` and the graces for connections have no effect on
    /// datagrams. During a notice the server receives as before; no property tells a handler of it.
    public var drain: Drain
    /// The executor that the handlers prefer, for example `endpoint.executor.reactor`. `nil`, the default, for the ``WorkerPool``, or for
    /// Swift's own pool if the task that calls `serve` has a priority below medium, as with ``HandlerExecutor/pool``. A handler that is
    /// isolated to the endpoint runs on the endpoint's reactor, whatever this says.
    public var taskExecutor: (any TaskExecutor)?
    /// The signals that stop the server, for example `[.terminate, .interrupt]`. See ``ProcessSignals`` for how they are taken over.
    public var stopSignals: Set<ProcessSignal>
    /// Called with each error that a handler throws, in the handler's task, before `serve` returns. It is not called for handlers that were
    /// cancelled because the time of the drain had ended. With `nil`, ``ServeFailure/printUnlessExpected()`` is called. `{ _ in }` turns
    /// that off.
    public var onFailure: (@Sendable (ServeFailure) -> Void)?

    /// Creates options with their defaults.
    public init() { self.init(handlers: 1_000) }

    /// Creates options.
    ///
    /// - Parameters:
    ///   - handlers: The largest number of handlers that run at a time, at least 1.
    ///   - overflow: The treatment of datagrams that arrive while all handlers are busy.
    ///   - queueBudget: The largest number of bytes that may wait in the program for a handler, at least 0.
    ///   - drain: How long handlers may continue when the server stops; 30 seconds by default.
    ///   - executor: The executor that the handlers prefer; `nil` for the pool.
    ///   - signals: The signals that stop the server; empty by default.
    ///   - onFailure: Called with each error of a handler; `nil` to print those that no peer caused.
    public init(
      handlers: Int = 1_000, overflow: Overflow = .wait, queueBudget: Int = 1 << 20,
      drain: Drain = .within(.seconds(30)), on executor: (any TaskExecutor)? = nil,
      stopOn signals: Set<ProcessSignal> = [], onFailure: (@Sendable (ServeFailure) -> Void)? = nil
    ) {
      self.handlers = handlers
      self.overflow = overflow
      self.queueBudget = queueBudget
      self.drain = drain
      taskExecutor = executor
      stopSignals = signals
      self.onFailure = onFailure
    }

    func check() throws(SocketError) {
      if handlers < 1 { throw .invalid("serve", "\(handlers) handlers are too few to serve anybody") }
      if queueBudget < 0 {
        throw .invalid("serve", "\(queueBudget) bytes are not a valid queueBudget; the smallest is 0")
      }
    }
  }

  /// The treatment of datagrams that arrive while all handlers of a server are busy.
  public enum Overflow: Hashable, Sendable {
    /// The endpoint receives nothing until a handler is free. Datagrams wait in the kernel's buffer (``Configuration/receiveBufferSize``).
    /// The kernel drops those that do not fit, and counts them in ``Metrics-swift.struct/datagramsDropped``.
    case wait
    /// Datagrams wait in the program, up to ``ServeOptions/queueBudget``. When a datagram does not fit, those that have waited longest are
    /// dropped. Choose this if only the latest state counts, as in a game.
    case dropOldest
    /// Datagrams wait in the program, up to ``ServeOptions/queueBudget``. A datagram that does not fit is dropped.
    case dropNewest
  }

  /// The numbers of datagrams that a server received, and how their handlers ended.
  public struct ServeReport: Hashable, Sendable {
    /// The datagrams that were received. Each of them counts in one of the other numbers, too. Those that the kernel dropped are not
    /// included: see ``Metrics-swift.struct/datagramsDropped``.
    public var received = 0
    /// The datagrams whose handler returned.
    public var finished = 0
    /// The datagrams whose handler threw an error that no peer caused.
    public var failed = 0
    /// The datagrams whose handler threw an error that a peer caused: see ``SocketError/isCausedByPeer``.
    public var failedByPeer = 0
    /// The datagrams whose handlers had not ended when the time of the drain ended.
    public var aborted = 0
    /// The datagrams that got no handler: all handlers were busy and the queue was full, or the time of the drain ended before their turn.
    public var unserved = 0

    /// Creates a report with all counts at 0.
    public init() {}
  }

  /// The error that ended the handler of a datagram.
  public struct ServeFailure: Sendable, CustomStringConvertible {
    /// The endpoint that received the datagram.
    public let endpoint: UDPEndpoint
    /// The datagram that the handler got.
    public let datagram: Datagram
    /// The error that was thrown.
    public let error: any Error

    /// Creates a failure, for example to test what a program does with one.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint.
    ///   - datagram: The datagram.
    ///   - error: The error that was thrown.
    public init(_ endpoint: UDPEndpoint, _ datagram: Datagram, _ error: any Error) {
      self.endpoint = endpoint
      self.datagram = datagram
      self.error = error
    }

    /// Whether a peer caused the error: see ``SocketError/isCausedByPeer(_:)``.
    public var isCausedByPeer: Bool { SocketError.isCausedByPeer(error) }

    /// A description for logs. It contains the description of the error, which may have several lines.
    public var description: String {
      let sender = datagram.remoteAddress.map { "from \($0)" } ?? "from a sender without a name"
      return "\(endpoint): the handler of a datagram \(sender) failed: \(error)"
    }

    /// Prints the failure in one line on standard error, unless a peer caused it, or the shutdown of the reactor. A line is dropped if 100
    /// lines wait already. This is what happens without ``ServeOptions/onFailure``.
    public func printUnlessExpected() { StandardError.write(description, of: error) }
  }
}
