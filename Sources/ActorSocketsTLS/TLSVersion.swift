/// A version of TLS.
public struct TLSVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number on the wire: `0x0303` is TLS 1.2.
  public let rawValue: UInt16

  /// Makes a version from its number on the wire.
  ///
  /// - Parameter rawValue: The number. A ``TLSConfiguration`` accepts only those of ``v12`` and ``v13``.
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  /// TLS 1.2, RFC 5246.
  public static let v12 = TLSVersion(rawValue: 0x0303)
  /// TLS 1.3, RFC 8446.
  public static let v13 = TLSVersion(rawValue: 0x0304)

  /// Compares two versions by age: the older one is less.
  public static func < (left: TLSVersion, right: TLSVersion) -> Bool { left.rawValue < right.rawValue }

  /// The version as text, for example `TLS 1.3`.
  public var description: String {
    rawValue >> 8 == 3 && rawValue & 0xff > 0 ? "TLS 1.\((rawValue & 0xff) - 1)" : "version \(rawValue)"
  }
}
