internal import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  /// An error about a datagram. Either a host or router reported it (ICMP, RFC 792, RFC 4443; ip(7), IP_RECVERR), or the datagram was not
  /// delivered and its call did not throw (``UDPEndpoint/Metrics/datagramsUndelivered``).
  public struct ErrorReport: Sendable, CustomStringConvertible {
    /// The error, with the datagram's destination in ``SocketError/address``, if it is known: `.connectionRefused` if no socket receives
    /// there, `.unreachable` if there is no route, `.limitExceeded` if the datagram was too large for a part of the path, or if the
    /// destination had no room.
    public let error: SocketError
    /// The host or router that reported it; `nil` if it is not known.
    public let reporter: IPAddress?
    /// If the datagram was too large: the largest packet that can pass, in bytes and including its headers; otherwise `nil`.
    public let largestPacket: Int?

    /// A description in one line, for logs.
    public var description: String { "\(error)" + (reporter.map { ", reported by \($0)" } ?? "") }
  }

  /// The errors about datagrams, until the endpoint is closed: those that hosts and routers report, and those of datagrams that were not
  /// delivered although their calls did not throw.
  ///
  /// ```swift
  /// for await report in endpoint.errors { log("\(report)") }
  /// ```
  ///
  /// The endpoint keeps the last 64 reports until they are read, and gives out each report once. An endpoint without a peer
  /// reports these errors only here, because they may concern any datagram that it has sent.
  public nonisolated var errors: Errors { Errors(endpoint: self) }

  /// The reports about the datagrams of an endpoint.
  public struct Errors: AsyncSequence, AsyncIteratorProtocol, Sendable {
    fileprivate let endpoint: UDPEndpoint

    /// Returns an iterator over the reports.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Errors { self }

    /// Waits for the next report.
    ///
    /// *Cancellation* ends the sequence; no report is lost. *Ordering*: loops that wait get the reports in the order in which
    /// they asked.
    ///
    /// - Returns: The report; `nil` when the endpoint is closed or the task is cancelled.
    public func next() async -> ErrorReport? { try? await endpoint.nextErrorReport() }

    /// Waits for the next report, called from any isolation.
    ///
    /// *Cancellation* and *ordering* are those of ``next()``.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The report; `nil` when the endpoint is closed or the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async -> ErrorReport? { await next() }
  }

  fileprivate func nextErrorReport() async throws -> ErrorReport {
    let place = claimPlaceNow()
    try Task.checkCancellation()
    if let report = errorReports.take() { return report }
    if let failure = lifecycle.failure { throw failure }
    let waiter = errorReports.waiters.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.errorReports.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  @discardableResult
  func takeReportedErrors() -> Int {
    // First, because afterwards the kernel has no error to return: another thread could send before this one is thrown.
    closeGate()
    var count = 0
    // A unix socket has no error queue; reading it would take a datagram instead.
    for bound in core.routes.sockets where bound.kind != .unix {
      guard let socket = bound.socket else { continue }
      var ofSocket = 0
      // At most 64 at a time, so that a flood of errors does not hold up other sockets.
      while ofSocket < 64, let entry = socket.takeReportedError() {
        ofSocket += 1
        let failure = SocketError(
          SocketError.Code(errno: entry.errno), operation: "send",
          detail: entry.errno == Errno.messageTooLong ? "the datagram is too large for a part of the way" : "",
          errno: entry.errno, address: entry.destination)
        report(failure, from: entry.reporter, largestPacket: entry.largestPacket)
      }
      // Clears the pending error, because the kernel would otherwise report it from the next call on this socket.
      if ofSocket > 0 { _ = try? socket.get(.pendingError) }
      count += ofSocket
    }
    if count > 0 { gate.forgetFailures() }
    return count
  }

  /// Passes an error to `errors`, and, if the endpoint has a peer, to the next call.
  func report(_ error: SocketError, from reporter: IPAddress?, largestPacket: Int? = nil) {
    errorReports.add(ErrorReport(error: error, reporter: reporter, largestPacket: largestPacket))
    guard core.routes.peer != nil else { return }
    closeGate()
    core.reportedError = error
    tellReceivers()
  }
}

struct ErrorReports {
  private var waiting = FIFO<UDPEndpoint.ErrorReport>()
  var waiters = Waiters<UDPEndpoint.ErrorReport>()

  /// The largest number of reports that wait. When another one arrives, the oldest is dropped.
  static var limit: Int { 64 }

  mutating func add(_ report: UDPEndpoint.ErrorReport) {
    if let waiter = waiters.takeFirst() { return waiter.resume(.success(report)) }
    if waiting.count == Self.limit { _ = waiting.popFirst() }
    waiting.append(report)
  }

  mutating func take() -> UDPEndpoint.ErrorReport? { waiting.popFirst() }

  mutating func end(_ error: SocketError) {
    waiters.resumeAll(.failure(error))
  }
}
