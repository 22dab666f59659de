/// An error for a batch of which some datagrams could not be sent. The other datagrams did not fail.
public struct DatagramBatchError: Error, Sendable, CustomStringConvertible {
  /// A datagram that could not be sent.
  public struct Failure: Sendable {
    /// The index of the datagram in the array.
    public let index: Int
    /// Why it could not be sent.
    public let error: SocketError
  }

  /// The number of datagrams that did not fail. Datagrams that were dropped, and replies that could not be delivered, count as sent: see
  /// ``UDPEndpoint/Metrics/datagramsUndelivered``.
  public let sent: Int
  /// The datagrams that could not be sent, in order; at least one.
  public let failures: [Failure]

  /// `indices` maps the indices of the filtered array to those of the caller's array; it is empty if there is no filter.
  func renumbered(_ indices: [Int]) -> DatagramBatchError {
    if indices.isEmpty { return self }
    let renumbered = failures.map { Failure(index: indices[$0.index], error: $0.error) }
    return DatagramBatchError(sent: sent, failures: renumbered)
  }

  /// A description in one sentence, with the first failure.
  public var description: String {
    let first = failures.first.map { ": number \($0.index + 1), \($0.error)" } ?? ""
    return "\(failures.count) of \(failures.count + sent) datagrams could not be sent\(first)"
  }
}

extension DatagramBatchError: NetworkError {
  /// Whether a peer can cause each of the failures.
  public var isCausedByPeer: Bool { !failures.isEmpty && failures.allSatisfy { $0.error.isCausedByPeer } }
  /// Whether each of the failures is a timeout.
  public var isTimeout: Bool { !failures.isEmpty && failures.allSatisfy { $0.error.isTimeout } }
  /// Whether each of the datagrams may be sent successfully later.
  public var isRetryable: Bool { !failures.isEmpty && failures.allSatisfy { $0.error.isRetryable } }
}
