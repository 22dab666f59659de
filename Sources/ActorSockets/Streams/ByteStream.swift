internal import EpollReactor
public import SocketSystem

/// A connection that carries bytes in both directions, in order: TCP, unix sockets, TLS, in memory.
///
/// Reads form one queue, writes another. A call gets its place in the queue when it is made. The stream carries out each operation
/// as a whole before it begins the next one. So concurrent writes never interleave, and concurrent reads never share a message.
///
/// *Cancellation and timeouts lose nothing.* A read that is cancelled or times out leaves the queue. The bytes that had arrived
/// stay for the next read. A write that is cancelled or times out leaves the queue if no byte of it was sent. Otherwise
/// the rest is sent in the background, because a message must not be torn.
///
/// *Ordering.* Operations begin in the order in which they are called. Tasks that run concurrently call in no particular order.
/// ``enqueueRead(_:timeout:)`` and ``enqueueWrite(_:timeout:)-([UInt8],_)`` queue operations in the order of the calls without waiting. If an
/// extension adds a method, the first operation of that method has the place of the method's own call. Synchronous members, such as
/// ``abort()``, can be called in the stream's isolation. There they take effect at once, ahead of the calls that wait in the queue.
///
/// All methods throw ``SocketError``, over TLS also `TLSError`, and `CancellationError` if the task is cancelled.
///
/// Only this package's types conform to `ByteStream`. Write servers, pools and chat rooms for `some ByteStream` or `any ByteStream`. They
/// then serve plain and encrypted connections, and a test runs them on an in-memory pair, without a network.
public protocol ByteStream: ReactorActor {
  /// A number that identifies the connection in this process, for logs. Observers get the same number.
  ///
  /// No two connections have the same number, except a `TLSConnection` and the stream beneath it: they are one connection.
  nonisolated var id: UInt64 { get }

  /// A name for logs, which the program may set. Observers get it, too.
  nonisolated var label: String? { get set }

  /// The local address, once there is one; `nil` for a stream without addresses.
  nonisolated var localAddress: SocketAddress? { get }

  /// The address of the peer, once it is known; `nil` for a stream without addresses.
  nonisolated var remoteAddress: SocketAddress? { get }

  /// Whether the listener that serves this connection is stopping: true from the beginning of a drain, or of its notice if it has one. If
  /// so, finish the current work and accept no new work. During a notice, requests are still expected.
  nonisolated var isDraining: Bool { get }

  /// Whether the peer has finished writing, or the connection has ended. A pool checks it before it uses an idle connection again.
  ///
  /// It becomes true when the reactor learns of the end, so the peer may have finished although it is still false. Bytes that arrived
  /// before the end may still be unread.
  nonisolated var hasPeerFinished: Bool { get }

  /// Sets an option of the connection's socket: setsockopt(2).
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The new value.
  /// - Throws: ``SocketError``: `.notASocket` if this kind of connection has no socket, for example in memory; `.closed` if the socket
  ///   does not exist yet or is closed; `.invalidArgument` if the option cannot have this value; otherwise the kernel's error.
  func set<Value>(_ option: SocketOption<Value>, to value: Value) throws

  /// Reads an option of the connection's socket: getsockopt(2).
  ///
  /// - Parameter option: The option.
  /// - Returns: The current value.
  /// - Throws: ``SocketError``: `.notASocket` if this kind of connection has no socket, for example in memory; `.closed` if the socket
  ///   does not exist yet or is closed; otherwise the kernel's error.
  func get<Value>(_ option: SocketOption<Value>) throws -> Value

  /// Calls a closure with the descriptor of the connection's socket, on the reactor's thread.
  ///
  /// - Parameter body: Called with the descriptor, which is valid until the closure returns and must not be closed.
  /// - Returns: The closure's result.
  /// - Throws: ``SocketError``: `.notASocket` if this kind of connection has no socket, for example in memory; `.closed` if the socket
  ///   does not exist yet or is closed; the error of the closure.
  func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value

  /// The queues, and the transport that moves the bytes.
  // This is underscored because the requirements of a public protocol are public.
  var _core: _StreamCore { get }
}

/// What the queues need of the connection that has them. All connections conform.
package protocol StreamOwner: ByteStream {
  /// Called when ``hasPeerFinished`` becomes true.
  nonisolated func peerHasFinished()
}

extension ByteStream {
  package var core: StreamCore {
    @inline(__always) get { _core }
  }

  // MARK: State

  /// The stage of the stream's life.
  ///
  /// *Ordering*: in the stream's isolation it is read at once, ahead of calls that wait in the queue.
  public var state: StreamState { inspect(claimPlaceNow()) { $0.state } }

  /// The bytes that the stream has moved so far, and the kernel's figures for a TCP connection: tcp(7), TCP_INFO.
  ///
  /// *Ordering*: in the stream's isolation it is read at once, ahead of calls that wait in the queue.
  public var metrics: StreamMetrics { inspect(claimPlaceNow()) { $0.metrics } }

  /// The contents of the stream's queues.
  ///
  /// *Ordering*: in the stream's isolation it is read at once, ahead of calls that wait in the queue.
  public var status: StreamStatus { inspect(claimPlaceNow()) { $0.status } }

  /// The operations that wait or are under way: the reads in the order of their queue, then the writes in the order of theirs.
  ///
  /// *Ordering*: in the stream's isolation it is read at once, ahead of calls that wait in the queue.
  public var pendingOperations: [PendingOperation] { inspect(claimPlaceNow()) { $0.pendingOperations } }

  private func inspect<Value>(_ place: Place, _ body: (StreamCore) -> Value) -> Value { body(core) }
}
