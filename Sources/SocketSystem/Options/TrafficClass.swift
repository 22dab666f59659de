/// The byte of a packet that says how routers should treat it: the type of service of IPv4, the traffic class of IPv6
/// (RFC 2474, RFC 3168).
public struct TrafficClass: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// The byte: six bits for the code point, two bits for congestion notification.
  public let rawValue: UInt8

  /// Creates a class from the byte.
  ///
  /// - Parameter rawValue: The byte.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Creates a class from its code point (DSCP).
  ///
  /// - Parameter codePoint: The code point, 0 to 63. Only the lower six bits count.
  public init(codePoint: UInt8) { rawValue = codePoint << 2 }

  /// The code point (DSCP), 0 to 63.
  public var codePoint: UInt8 { rawValue >> 2 }
  /// The bits for explicit congestion notification (ECN), 0 to 3.
  public var congestion: UInt8 { rawValue & 3 }

  /// The default treatment: code point 0.
  public static let bestEffort = TrafficClass(codePoint: 0)
  /// A lower priority than the default: code point 1, RFC 8622.
  public static let lowerEffort = TrafficClass(codePoint: 1)
  /// Low delay for small amounts of data, for example for calls: code point 46, RFC 3246.
  public static let expeditedForwarding = TrafficClass(codePoint: 46)

  /// The class in text, for example `DSCP 46`.
  public var description: String { "DSCP \(codePoint)" + (congestion == 0 ? "" : ", ECN \(congestion)") }
}
