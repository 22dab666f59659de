internal import SocketSystem

/// The text form of certificates and keys, RFC 7468, as far as OpenSSL leaves anything to do.
enum PEM {
  private static let beginning = Array("-----BEGIN ".utf8)

  /// Whether there is something in it that begins as PEM does.
  static func isPEM(_ bytes: [UInt8]) -> Bool {
    bytes.indices.contains { index in
      bytes[index] == beginning[0] && bytes[index...].starts(with: beginning)
    }
  }
}
