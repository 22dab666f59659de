/// A list of ciphers for TLS 1.2. ``TLSConfiguration/cipherSuites`` names those for TLS 1.3.
///
/// ```swift
/// configuration.ciphers = .compatible
/// configuration.ciphers = .openSSL("ECDHE+AESGCM:DHE-RSA-AES256-GCM-SHA384")
/// ```
public struct TLSCiphers: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
  /// The list in OpenSSL's notation, see openssl-ciphers(1).
  public let description: String

  private init(_ list: String) { description = list }

  /// Makes a list from a literal, as ``openSSL(_:)`` does.
  ///
  /// - Parameter list: The list in OpenSSL's notation.
  public init(stringLiteral list: String) { self.init(list) }

  /// Contains the ciphers with forward secrecy and authenticated encryption: ECDHE with AES-GCM or ChaCha20-Poly1305.
  ///
  /// Every TLS library of the last ten years supports these ciphers. RFC 9325, section 4.2, recommends no others.
  public static let modern = TLSCiphers("ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL")

  /// Contains ``modern`` and, with lower preference, what old peers need: DHE, CBC, and RSA key exchange.
  ///
  /// RSA key exchange has no forward secrecy: an attacker who gets the server's key can read conversations recorded earlier.
  /// CBC with a MAC has a history of timing attacks. DHE costs a server several times as much as ECDHE.
  public static let compatible = TLSCiphers(
    "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:ECDHE+AES:DHE+AES:kRSA+AESGCM:kRSA+AES"
      + ":!aNULL:!aDSS:!PSK:!SRP:!AESCCM")

  /// Makes a list of your own.
  ///
  /// A list that contains DHE also turns on Diffie-Hellman parameters for servers. Their size depends on the server's key, for
  /// example 2048 bits for an RSA key of 2048 bits. ``TLSContext/init(_:)`` throws `.invalidConfiguration` for names that
  /// OpenSSL does not know.
  ///
  /// - Parameter list: Names and groups of ciphers in OpenSSL's notation, separated by colons: openssl-ciphers(1).
  /// - Returns: The list.
  public static func openSSL(_ list: String) -> TLSCiphers { TLSCiphers(list) }
}
