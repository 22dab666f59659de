/// A connection that carries bytes both ways, in order: TCP, TLS, in memory.
///
/// Reads form one queue, writes another. An operation takes its place at the call; each is carried out as a whole before
/// the next begins, so concurrent writes never interleave and concurrent reads never share a message.
///
/// *Cancellation and timeouts lose nothing.* A read that is cancelled or times out frees its place and leaves the bytes
/// that had arrived for the next one. A write of which no byte was sent is removed; one that is partly sent goes on in
/// the background, for it must not be torn.
///
/// *Ordering.* Operations begin in the order in which they are called. Calls from tasks that start concurrently have no
/// order among themselves; ``enqueueRead(_:timeout:)`` and ``enqueueWrite(_:timeout:)`` make an order without awaiting.
/// In a method of an extension, the first operation has the place of the call of the method. Synchronous members, such as
/// ``abort()``, take effect at once when code in the stream's isolation calls them: ahead of the calls that wait in the queue.
///
/// All methods throw ``SocketError``, and `CancellationError` when the task is cancelled.
public protocol ByteStream: ReactorActor {
  /// Reads what a request asks for.
  ///
  /// - Parameters:
  ///   - request: What to read.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far a read of a fixed length has come.
  /// - Returns: What the request makes of the bytes.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func read<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout?, progress: Progress?
  ) async throws -> Value

  /// Reads what there is: recv(2).
  ///
  /// It waits for the first byte and never returns an empty array.
  ///
  /// - Parameters:
  ///   - limit: The most bytes, at least 1.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: The bytes; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func read(upTo limit: Int, timeout: Timeout?) async throws -> [UInt8]?

  /// Shows the bytes that arrived, without copying them.
  ///
  /// The body runs isolated to the stream, once at least one byte is there. It says how many bytes it used up; the others
  /// stay. If it used none, it is asked again when there are more than it was shown, and its result is dropped.
  ///
  /// - Parameters:
  ///   - limit: The most bytes to show, at least 1; `.limitExceeded` if so many are shown and none is used.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - body: Looks at the bytes and counts those that it used up. If it throws, what it counted is used up.
  /// - Returns: What the body returned when it used bytes up; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func withBytes<Value>(
    upTo limit: Int, timeout: Timeout?,
    _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value?

  /// Writes bytes: send(2).
  ///
  /// - Parameters:
  ///   - bytes: The bytes; none is a write too, which succeeds in its turn.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far it has come, if it takes more than one step.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func write(_ bytes: [UInt8], timeout: Timeout?, progress: Progress?) async throws

  /// Writes bytes that are copied only if they cannot be sent at once.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func write(_ bytes: Span<UInt8>, timeout: Timeout?) async throws

  /// Writes several pieces as one, without joining them first: sendmsg(2).
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far it has come, if it takes more than one step.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func write(contentsOf pieces: [[UInt8]], timeout: Timeout?, progress: Progress?) async throws

  /// Writes bytes of a file, which the kernel sends without copying them through this process: sendfile(2).
  ///
  /// It is one write, in its place among the others. Where there is no socket, the file is read in pieces.
  ///
  /// Reading a file may block, and does so on the reactor's thread: at most 256 KiB at a time, and hardly ever noticeable
  /// for what is in the page cache. Send from slow or remote disks with `read` calls on a thread of your own.
  ///
  /// *Errors*: if the file becomes shorter meanwhile or cannot be read, and a part of it is sent, the stream is aborted,
  /// for the peer waits for the rest; ``SocketError/bytesTransferred`` says how much it was. If nothing is sent, only this
  /// write fails. What the file's bytes are when they are sent is what arrives.
  ///
  /// *Cancellation* and timeouts are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - file: The file. Whoever calls may let go of it; it stays open until it is sent.
  ///   - range: The bytes, counted from the file's beginning; `nil` for all. An empty range is a write, too. What the file
  ///     does not have is an `.invalidArgument`, before anything is sent.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far it has come, if it takes more than one step.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  func sendFile(_ file: FileSource, range: Range<Int>?, timeout: Timeout?, progress: Progress?) async throws

  /// Puts a read in the queue without waiting for it.
  ///
  /// *Ordering*: the order of the calls is the order of the queue, from any thread. If a read fails or is taken back, the
  /// reads that are enqueued behind it at that time fail with `.precedingReadFailed`.
  ///
  /// - Parameters:
  ///   - request: What to read.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: Where the outcome will be.
  nonisolated func enqueueRead<Value: Sendable>(_ request: ReadRequest<Value>, timeout: Timeout?) -> Pending<Value>

  /// Puts a write in the queue without waiting for it.
  ///
  /// If more bytes wait than the stream's budget allows, nothing is queued and the outcome is `.limitExceeded`.
  ///
  /// *Ordering*: the order of the calls is the order of the queue, from any thread.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: Where the outcome will be.
  nonisolated func enqueueWrite(_ bytes: [UInt8], timeout: Timeout?) -> Pending<Void>

  /// Takes out all bytes that arrived and that no read has taken, also after the stream is closed.
  ///
  /// *Ordering*: in the stream's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Returns: The bytes, or none.
  func takeBuffered() -> [UInt8]

  /// Tells the peer, behind all writes before, that no more bytes come: the half-close, shutdown(2). Reading goes on.
  ///
  /// *Ordering*: the half-close takes its place among the writes, and no write is accepted behind it.
  ///
  /// *Cancellation*, also before the call, only ends the wait; the half-close is still carried out when its turn comes. The
  /// call then throws `CancellationError`, unless the half-close is already done.
  ///
  /// - Throws: ``SocketError``: `.closed` if the writing side was already finished, or what broke the connection;
  ///   `CancellationError` when the task is cancelled.
  func finishWriting() async throws

  /// Waits until everything written before has gone as far as `target` says: ioctl(2) with SIOCOUTQ, tcp(7).
  ///
  /// It says nothing about the program at the other end, which may not have read anything yet. The kernel has no event for
  /// acknowledgements: it is asked again after an eighth of the time waited, 1 ms to 1 s, only while somebody waits. Behind
  /// ``finishWriting()`` the end counts, too. In memory and on unix sockets, what is sent is in the peer's buffer already.
  ///
  /// *Ordering*: it takes a place among the writes; later ones do not wait for the acknowledgement, nor does it wait for
  /// theirs. *Cancellation* and timeouts end the waiting alone. So does closing: when all is sent, it throws `.closed`,
  /// unless the stream is closed with ``close(after:)`` pending writes, of which this is one.
  ///
  /// - Parameters:
  ///   - target: How far.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, what broke the connection for example, and `CancellationError` when the task is cancelled.
  func flush(until target: FlushTarget, timeout: Timeout?) async throws

  /// Waits until the peer has finished writing, whether or not everything is read. Writing to it may go on.
  ///
  /// Over TLS the end lies behind the bytes before it: it is found as long as no more than 64 KiB of them wait to be read.
  ///
  /// Throws `.closed` or what broke the connection if that comes first.
  ///
  /// *Ordering*: it has no place among the operations; it returns when the condition holds.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`. If the peer has already finished, the call returns even
  /// in a cancelled task.
  var peerFinishedWriting: Void { get async throws }

  /// Closes the stream: reads that wait fail, writes that wait are sent, then the descriptor goes.
  ///
  /// It returns when the descriptor is closed. Closing destroys nothing that was sent: over TCP, it discards input until the
  /// peer finishes, for 2 seconds at most. On a unix socket it does not wait: what was sent is already in the peer's buffer,
  /// and what the peer had sent is discarded at once. A peer that still writes there gets EPIPE from then on.
  ///
  /// *Ordering*: operations that are called before it are accepted, operations that are called after it throw `.closed`.
  ///
  /// *Cancellation*, also before the call, only ends the wait; closing continues.
  func close() async

  /// Closes the stream when the operations that wait are finished; new ones are refused at once.
  ///
  /// *Ordering*: as ``close()``.
  ///
  /// *Cancellation*, also before the call, only ends the wait; closing continues.
  ///
  /// - Parameter condition: What to finish first.
  func close(after condition: CloseCondition) async

  /// Ends the stream now: operations that wait fail with `.closed`, and bytes that were not sent are dropped.
  ///
  /// Over TCP the peer sees a reset (RST), which may destroy bytes that the peer has received but not read. In memory the peer
  /// reads what arrived, and then the reset. Linux has no reset for unix sockets, unix(7): the peer reads everything that was
  /// sent, and then a clean end of the stream. It gets ECONNRESET instead of the end only if it had sent bytes that this side
  /// has not received. So a protocol over unix sockets must not treat the end of the stream as the end of a message.
  ///
  /// *Ordering*: in the stream's isolation it takes effect at once, ahead of calls that wait in the queue; those throw `.closed`.
  func abort()

  /// Waits until the stream has ended, whoever ended it, and says how.
  ///
  /// *Ordering*: it has no place among the operations; it returns when the stream has ended.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`. If the stream has already ended, the call returns the
  /// report even in a cancelled task.
  var closed: CloseReport { get async throws }

  /// Where the stream is in its life.
  ///
  /// *Ordering*: in the stream's isolation it says what is so now, without the calls that wait in the reactor's queue.
  var state: StreamState { get }

  /// The bytes moved so far, and what TCP knows of the connection.
  ///
  /// *Ordering*: in the stream's isolation it says what is so now, without the calls that wait in the reactor's queue.
  var metrics: StreamMetrics { get }

  /// What the queues hold.
  ///
  /// *Ordering*: in the stream's isolation it says what is so now, without the calls that wait in the reactor's queue.
  var status: StreamStatus { get }

  /// The operations that wait, the ones under way included: the reads in the order of their queue, then the writes in theirs.
  ///
  /// *Ordering*: in the stream's isolation it says what is so now, without the calls that wait in the reactor's queue.
  var pendingOperations: [PendingOperation] { get }
}
