/// A list of groups for the key exchange, in order of preference.
///
/// ```swift
/// configuration.groups = .nist
/// configuration.groups = .openSSL("X25519MLKEM768:X25519")
/// ```
public struct TLSGroups: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
  /// The list in OpenSSL's notation, see SSL_CONF_cmd(3).
  public let description: String

  private init(_ list: String) { description = list }

  /// Makes a list from a literal, as ``openSSL(_:)`` does.
  ///
  /// - Parameter list: The list in OpenSSL's notation.
  public init(stringLiteral list: String) { self.init(list) }

  /// Contains X25519, P-256 and P-384: RFC 7748, FIPS 186. Every TLS library of the last ten years supports one of them.
  public static let classic = TLSGroups("X25519:P-256:P-384")

  /// Contains P-256, P-384 and P-521, the curves of FIPS 186.
  public static let nist = TLSGroups("P-256:P-384:P-521")

  /// Makes a list of your own.
  ///
  /// ``TLSContext/init(_:)`` throws `.invalidConfiguration` for names that OpenSSL does not know. `X25519MLKEM768`, which protects
  /// recordings from later quantum computers, needs OpenSSL 3.5, which prefers it by default.
  ///
  /// - Parameter list: Names of groups in OpenSSL's notation, separated by colons.
  /// - Returns: The list.
  public static func openSSL(_ list: String) -> TLSGroups { TLSGroups(list) }
}
