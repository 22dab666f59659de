/// The byte of a packet that says how routers are asked to treat it: the type of service of IPv4, the traffic class of IPv6.
/// RFC 2474, RFC 3168.
public struct TrafficClass: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// The byte: six bits of the code point, two of congestion notification.
  public let rawValue: UInt8

  /// The byte as it is.
  ///
  /// - Parameter rawValue: The byte.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// A class by its code point (DSCP).
  ///
  /// - Parameter codePoint: The code point, of which the lower six bits count.
  public init(codePoint: UInt8) { rawValue = codePoint << 2 }

  /// The code point (DSCP), 0 to 63.
  public var codePoint: UInt8 { rawValue >> 2 }
  /// The bits of explicit congestion notification (ECN), 0 to 3.
  public var congestion: UInt8 { rawValue & 3 }

  /// As everybody else: code point 0.
  public static let bestEffort = TrafficClass(codePoint: 0)
  /// Behind everybody else: code point 1, RFC 8622.
  public static let lowerEffort = TrafficClass(codePoint: 1)
  /// Low delay for few bytes, as of calls: code point 46, RFC 3246.
  public static let expeditedForwarding = TrafficClass(codePoint: 46)

  /// For example `DSCP 46`.
  public var description: String { "DSCP \(codePoint)" + (congestion == 0 ? "" : ", ECN \(congestion)") }
}
