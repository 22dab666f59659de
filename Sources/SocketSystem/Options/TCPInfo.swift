internal import CLinux
import Glibc

/// What the kernel's TCP knows of a connection: tcp(7), TCP_INFO.
///
/// What an older kernel does not tell is `nil`. Segments are of at most ``segmentSize`` bytes.
public struct TCPInfo: Hashable, Sendable {
  /// A state of RFC 9293, 3.3.2.
  public struct State: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The kernel's number for it.
    public let rawValue: UInt8

    /// The state with this number.
    ///
    /// - Parameter rawValue: The kernel's number for it.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    private static let names = [
      "ESTABLISHED", "SYN-SENT", "SYN-RECEIVED", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "CLOSED", "CLOSE-WAIT",
      "LAST-ACK", "LISTEN", "CLOSING",
    ]

    /// Both sides may send.
    public static let established = State(rawValue: 1)
    /// Connecting.
    public static let synSent = State(rawValue: 2)
    /// This side finished writing, and the peer has not acknowledged that.
    public static let finWait1 = State(rawValue: 4)
    /// This side finished writing, and the peer knows.
    public static let finWait2 = State(rawValue: 5)
    /// It is over.
    public static let closed = State(rawValue: 7)
    /// The peer finished writing.
    public static let closeWait = State(rawValue: 8)

    /// The name that RFC 9293 gives it.
    public var description: String {
      Self.names.indices.contains(Int(rawValue) - 1) ? Self.names[Int(rawValue) - 1] : "state \(rawValue)"
    }
  }

  /// Where the connection is.
  public let state: State
  /// The round-trip time, smoothed.
  public let roundTripTime: Duration
  /// How much it varies.
  public let roundTripTimeVariation: Duration
  /// The shortest one lately.
  public let minimumRoundTripTime: Duration?
  /// The segments that may be under way: the congestion window.
  public let congestionWindow: Int
  /// The congestion window up to which it grows quickly.
  public let slowStartThreshold: Int
  /// The most bytes of a segment sent.
  public let segmentSize: Int
  /// The most bytes of a packet on the way to the peer.
  public let pathMTU: Int
  /// The segments that were sent and not acknowledged.
  public let unacknowledgedSegments: Int
  /// Of these, the ones that are taken for lost.
  public let lostSegments: Int
  /// Of these, the ones that were sent again.
  public let retransmittedSegments: Int
  /// The segments that were sent again since the connection began.
  public let totalRetransmissions: Int
  /// The bytes that the peer acknowledged.
  public let bytesAcknowledged: Int?
  /// The bytes that the kernel received, whether or not they were read.
  public let bytesReceived: Int?
  /// The bytes that the kernel has and has not sent at all.
  public let bytesUnsent: Int?
  /// How fast bytes were delivered lately, in bytes a second.
  public let deliveryRate: Int?
}

extension Socket {
  /// getsockopt(2) of TCP_INFO.
  package func tcpInfo() throws(SystemError) -> TCPInfo {
    var info = clinux_tcp_info()
    // SAFETY: `info` is valid for the call, which fills it.
    let result = unsafe clinux_get_tcp_info(number, &info)
    if result < 0 { throw SystemError(call: "getsockopt", errno: -result) }
    return TCPInfo(info)
  }
}

extension Socket {
  /// Returns how many connections wait for accept4(2) on this listening socket: tcpi_unacked of TCP_INFO.
  ///
  /// - Parameter most: The result if connections wait and the kernel does not say how many, as for a unix socket.
  /// - Returns: The number of connections that wait.
  package func waitingConnections(atMost most: Int) -> Int {
    if let info = try? tcpInfo() { return info.unacknowledgedSegments }
    var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
    // SAFETY: one struct pollfd is read and written, which `entry` is.
    return unsafe poll(&entry, 1, 0) > 0 ? most : 0
  }
}

extension TCPInfo {
  fileprivate init(_ info: clinux_tcp_info) {
    func known(_ value: UInt64) -> Int? { value == .max ? nil : Int(clamping: value) }
    state = State(rawValue: info.state)
    roundTripTime = .microseconds(info.round_trip)
    roundTripTimeVariation = .microseconds(info.round_trip_variation)
    // The kernel says "none yet" by the largest number.
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
