internal import SocketSystem

/// The text form of certificates and keys (RFC 7468), as far as OpenSSL does not handle it.
enum PEM {
  /// Whether the bytes contain the beginning of a PEM block.
  static func isPEM(_ bytes: [UInt8]) -> Bool { contains("-----BEGIN ", bytes) }

  /// Whether the bytes contain a PEM block that is labelled as a private key.
  static func hasPrivateKey(_ bytes: [UInt8]) -> Bool { contains("PRIVATE KEY-----", bytes) }

  private static func contains(_ text: StaticString, _ bytes: [UInt8]) -> Bool {
    let wanted = Array(text.description.utf8)
    return bytes.indices.contains { bytes[$0] == wanted[0] && bytes[$0...].starts(with: wanted) }
  }
}
