internal import CLinux

/// The state and the measurements that the kernel keeps for a TCP connection: TCP_INFO in tcp(7).
///
/// A value is `nil` if an older kernel does not report it. A segment has at most ``segmentSize`` bytes.
public struct TCPInfo: Hashable, Sendable {
  /// A state of a TCP connection: RFC 9293, section 3.3.2.
  public struct State: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The kernel's number for the state.
    public let rawValue: UInt8

    /// Creates the state with this number.
    ///
    /// - Parameter rawValue: The kernel's number for the state.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    private static let names = [
      "ESTABLISHED", "SYN-SENT", "SYN-RECEIVED", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "CLOSED", "CLOSE-WAIT",
      "LAST-ACK", "LISTEN", "CLOSING",
    ]

    /// The connection is open, and both sides may send.
    public static let established = State(rawValue: 1)
    /// This side is connecting.
    public static let synSent = State(rawValue: 2)
    /// This side has finished writing, and the peer has not acknowledged that.
    public static let finWait1 = State(rawValue: 4)
    /// This side has finished writing, and the peer has acknowledged that.
    public static let finWait2 = State(rawValue: 5)
    /// The connection has ended.
    public static let closed = State(rawValue: 7)
    /// The peer has finished writing.
    public static let closeWait = State(rawValue: 8)

    /// The state's name in RFC 9293.
    public var description: String {
      Self.names.indices.contains(Int(rawValue) - 1) ? Self.names[Int(rawValue) - 1] : "state \(rawValue)"
    }
  }

  /// The state of the connection.
  public let state: State
  /// The smoothed round-trip time.
  public let roundTripTime: Duration
  /// The variation of the round-trip time.
  public let roundTripTimeVariation: Duration
  /// The shortest recent round-trip time.
  public let minimumRoundTripTime: Duration?
  /// The congestion window: the number of segments that may be in flight.
  public let congestionWindow: Int
  /// The slow start threshold: the congestion window up to which the window grows quickly.
  public let slowStartThreshold: Int
  /// The greatest size in bytes of a segment that is sent.
  public let segmentSize: Int
  /// The greatest size in bytes of a packet on the path to the peer.
  public let pathMTU: Int
  /// The number of segments that were sent and are not acknowledged.
  public let unacknowledgedSegments: Int
  /// The number of unacknowledged segments that count as lost.
  public let lostSegments: Int
  /// The number of unacknowledged segments that were sent again.
  public let retransmittedSegments: Int
  /// The number of segments that were sent again since the connection began.
  public let totalRetransmissions: Int
  /// The number of bytes that the peer has acknowledged.
  public let bytesAcknowledged: Int?
  /// The number of bytes that the kernel has received, whether or not they were read.
  public let bytesReceived: Int?
  /// The number of bytes in the kernel that were never sent.
  public let bytesUnsent: Int?
  /// The recent rate of delivery, in bytes per second.
  public let deliveryRate: Int?
}

extension BorrowedDescriptor {
  package func tcpInfo() throws(SystemError) -> TCPInfo {
    let (result, info) = CurrentSystem.of(number) { $0.tcpInfo(of: number) }
    guard let info else { throw SystemError(call: "getsockopt", errno: -result) }
    return info
  }
}

extension TCPInfo {
  init(_ info: clinux_tcp_info) {
    func known(_ value: UInt64) -> Int? { value == .max ? nil : Int(clamping: value) }
    state = State(rawValue: info.state)
    roundTripTime = .microseconds(info.round_trip)
    roundTripTimeVariation = .microseconds(info.round_trip_variation)
    // The greatest number stands for "no measurement yet".
    let minimum = known(info.minimum_round_trip)
    minimumRoundTripTime = minimum == Int(UInt32.max) ? nil : minimum.map { .microseconds($0) }
    congestionWindow = Int(info.congestion_window)
    slowStartThreshold = Int(info.slow_start_threshold)
    segmentSize = Int(info.segment_size)
    pathMTU = Int(info.path_mtu)
    unacknowledgedSegments = Int(info.unacknowledged)
    lostSegments = Int(info.lost)
    retransmittedSegments = Int(info.retransmitted_now)
    totalRetransmissions = Int(info.retransmitted)
    bytesAcknowledged = known(info.bytes_acknowledged)
    bytesReceived = known(info.bytes_received)
    bytesUnsent = known(info.unsent_bytes)
    deliveryRate = known(info.delivery_rate)
  }
}

extension TCPInfo {
  package init(
    state: State, roundTripTime: Duration, roundTripTimeVariation: Duration, minimumRoundTripTime: Duration?,
    congestionWindow: Int, slowStartThreshold: Int, segmentSize: Int, unacknowledgedSegments: Int, lostSegments: Int,
    retransmittedSegments: Int, totalRetransmissions: Int, bytesAcknowledged: Int, bytesReceived: Int, bytesUnsent: Int
  ) {
    self.state = state
    self.roundTripTime = roundTripTime
    self.roundTripTimeVariation = roundTripTimeVariation
    self.segmentSize = segmentSize
    self.unacknowledgedSegments = unacknowledgedSegments
    self.retransmittedSegments = retransmittedSegments
    self.bytesAcknowledged = bytesAcknowledged
    self.bytesReceived = bytesReceived
    self.bytesUnsent = bytesUnsent
    self.minimumRoundTripTime = minimumRoundTripTime
    self.congestionWindow = congestionWindow
    // Linux's greatest number, while there was no loss.
    self.slowStartThreshold = min(slowStartThreshold, Int(Int32.max))
    self.lostSegments = lostSegments
    self.totalRetransmissions = totalRetransmissions
    pathMTU = segmentSize + 52
    deliveryRate = nil
  }
}

extension TCPInfo.State {
  package static var listening: UInt8 { 10 }
}
