public import SocketSystem

/// The signals that this process gets, as a sequence: signal(7), sigaction(2).
///
/// ```swift
/// for await _ in try ProcessSignals([.hangup]) {
///   do {
///     try context.replaceIdentities(identity: TLSIdentity(certificateFile: certificate, keyFile: key))
///   } catch {
///     print("the old certificate stays: \(error)")
///   }
/// }
/// ```
///
/// Catch the errors of the loop's body inside it. An error that ends the loop releases the sequence, and the next signal then ends the
/// process.
///
/// While the sequence or one of its iterators exists, the signals have no other effect: SIGTERM does not end the process. After the
/// last of them is released, the previous handling is restored, unless other code has replaced it since. Several sequences and
/// servers may name the same signal; each of them gets it.
///
/// The signals are taken over with a handler, and not with signalfd(2). So threads that exist already may block a signal, as long as
/// one thread does not block it. The main thread of a Swift program blocks no signals. A process that this program starts does not
/// inherit the handler. A separate thread delivers the signals, so they arrive however busy the reactors are.
///
/// To stop a server on a signal, use ``StreamListener/serve(_:handler:)``.
public struct ProcessSignals: AsyncSequence, Sendable {
  /// The element of the sequence.
  public typealias Element = ProcessSignal
  /// The sequence does not throw.
  public typealias Failure = Never

  private let stream: AsyncStream<ProcessSignal>
  private let subscription: SignalSubscription

  /// Takes over signals. When this returns, they no longer have their previous effect, and the sequence delivers those that arrive.
  ///
  /// At most 64 signals wait for the program to take them. Further ones are dropped, as the kernel drops a signal that arrives while
  /// the same signal is pending: signal(7).
  ///
  /// *Ordering*: signals are delivered in the order in which they arrive. Those that arrive within a moment may be delivered in another
  /// order.
  ///
  /// - Parameter signals: The signals.
  /// - Throws: ``SocketError``: `.tooManyOpenFiles` if no descriptor is free for the first call in the process.
  public init(_ signals: Set<ProcessSignal>) throws(SocketError) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: ProcessSignal.self, bufferingPolicy: .bufferingOldest(64))
    self.stream = stream
    do {
      subscription = try SignalHub.shared.subscribe(to: signals) { continuation.yield($0) }
    } catch {
      throw SocketError(error, operation: "take over signals")
    }
  }

  /// Returns an iterator. One task at a time may wait for the next signal.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> Iterator {
    Iterator(base: stream.makeAsyncIterator(), subscription: subscription)
  }

  /// Waits for the signals, one after the other.
  public struct Iterator: AsyncIteratorProtocol {
    private var base: AsyncStream<ProcessSignal>.Iterator
    private let subscription: SignalSubscription

    fileprivate init(base: AsyncStream<ProcessSignal>.Iterator, subscription: SignalSubscription) {
      self.base = base
      self.subscription = subscription
    }

    /// Waits for the next signal.
    ///
    /// *Cancellation* ends the sequence, for all of its iterators. The signals stay taken over until all of them are released.
    ///
    /// *Ordering* is that of ``ProcessSignals/init(_:)``.
    ///
    /// - Returns: The signal; `nil` if the task is cancelled.
    public mutating func next() async -> ProcessSignal? { await next(isolation: #isolation) }

    /// Waits for the next signal, in the isolation of the caller.
    ///
    /// *Cancellation* and *Ordering* are those of ``next()``.
    ///
    /// - Parameter actor: The isolation.
    /// - Returns: The signal; `nil` if the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> ProcessSignal? {
      await base.next(isolation: actor)
    }
  }
}
