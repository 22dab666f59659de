internal import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  /// An error that somebody on the way reported about a datagram: ICMP, RFC 792, RFC 4443; ip(7), IP_RECVERR.
  public struct ErrorReport: Sendable, CustomStringConvertible {
    /// What it is, and where the datagram went (``SocketError/address``): `.connectionRefused` if nobody listens there,
    /// `.unreachable` if there is no way, `.limitExceeded` if it was too large for a part of the way.
    public let error: SocketError
    /// Who reported it: the destination, or a router. `nil` if it is not known.
    public let reporter: IPAddress?
    /// The most bytes of a packet, with its headers, that pass, if the datagram was larger.
    public let largestPacket: Int?

    /// One line for logs.
    public var description: String { "\(error)" + (reporter.map { ", reported by \($0)" } ?? "") }
  }

  /// What is reported about datagrams that were sent, for as long as the endpoint is open.
  ///
  /// ```swift
  /// for await report in endpoint.errors { log("\(report)") }
  /// ```
  ///
  /// The last 64 wait for those who ask; each is given out once. An endpoint without a peer tells of them nowhere else, for they
  /// may be about anything that it sent.
  public nonisolated var errors: Errors { Errors(endpoint: self) }

  /// What is reported about the datagrams of an endpoint.
  public struct Errors: AsyncSequence, AsyncIteratorProtocol, Sendable {
    fileprivate let endpoint: UDPEndpoint

    /// Begins to iterate.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Errors { self }

    /// Waits for the next report.
    ///
    /// - Returns: The report; `nil` when the endpoint is closed or the task is cancelled.
    public func next() async -> ErrorReport? { try? await endpoint.nextErrorReport() }

    /// Waits for the next report, from any isolation.
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

  /// Empties the error queues of the sockets.
  ///
  /// - Returns: How many errors there were.
  @discardableResult
  func takeReportedErrors() -> Int {
    var count = 0
    // A unix socket has no error queue, and would give a datagram away instead.
    for (index, registration) in sockets.enumerated() where kinds[index] != .unix {
      guard let socket = registration.socket else { continue }
      var ofSocket = 0
      // As many as the kernel may keep; a flood of them must not hold the others up.
      while ofSocket < 64, let entry = socket.takeReportedError() {
        ofSocket += 1
        let failure = SocketError(
          SocketError.Code(errno: entry.errno), operation: "send",
          detail: entry.errno == Errno.messageTooLong ? "the datagram is too large for a part of the way" : "",
          errno: entry.errno, address: entry.destination)
        report(failure, from: entry.reporter, largestPacket: entry.largestPacket)
      }
      // What the kernel would otherwise tell the next call, whatever that is for.
      if ofSocket > 0 { _ = try? socket.get(.pendingError) }
      count += ofSocket
    }
    return count
  }

  /// Tells of an error: those who ask for errors, and of one about the peer the next call.
  func report(_ error: SocketError, from reporter: IPAddress?, largestPacket: Int? = nil) {
    errorReports.add(ErrorReport(error: error, reporter: reporter, largestPacket: largestPacket))
    guard peer != nil else { return }
    reportedError = error
    tellReceivers()
  }
}

/// The reports that nobody has asked for yet.
struct ErrorReports {
  private var waiting = FIFO<UDPEndpoint.ErrorReport>()
  var waiters = Waiters<UDPEndpoint.ErrorReport>()

  /// How many wait; of more, the oldest goes.
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
