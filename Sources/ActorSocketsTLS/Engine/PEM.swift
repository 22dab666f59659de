internal import SocketSystem

/// RFC 7468, as far as OpenSSL does not handle it.
enum PEM {
  static func isPEM(_ bytes: [UInt8]) -> Bool { contains("-----BEGIN ", bytes) }

  static func hasPrivateKey(_ bytes: [UInt8]) -> Bool { contains("PRIVATE KEY-----", bytes) }

  /// Finds a block that no reader of this module knows. OpenSSL skips it silently, and its certificates would be
  /// missing. Returns a clause about the text.
  static func unknownBlock(in bytes: [UInt8]) -> String? {
    var number = 0
    var isOpen = false
    for line in bytes.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
      if line.starts(with: beginning) {
        isOpen = true
        number += 1
        let label = label(of: line.dropFirst(beginning.count))
        if !label.isKnown {
          return "has a block that is not recognised, number \(number): \(AddressError.quote(label.text))"
        }
      } else if line.starts(with: end) {
        if !isOpen { return "has the end of a block that does not begin, behind number \(number)" }
        isOpen = false
      }
    }
    return nil
  }

  private static let beginning = Array("-----BEGIN ".utf8)
  private static let end = Array("-----END ".utf8)

  /// The text of a known label is empty.
  private static func label(of line: ArraySlice<UInt8>) -> (text: String, isKnown: Bool) {
    let dashes = Array("-----".utf8)
    let trimmed = line.reversed().drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }.reversed()
    let text = String(decoding: trimmed.prefix(200), as: UTF8.self)
    guard Array(trimmed.suffix(dashes.count)) == dashes else { return (text, false) }
    let label = Array(trimmed.dropLast(dashes.count))
    let isKnown =
      labels.contains(label) || endings.contains { label.count >= $0.count && Array(label.suffix($0.count)) == $0 }
    return (isKnown ? "" : String(decoding: label.prefix(200), as: UTF8.self), isKnown)
  }

  private static let labels = [
    "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CRL", "CERTIFICATE REQUEST",
    "NEW CERTIFICATE REQUEST",
  ].map { Array($0.utf8) }
  private static let endings = ["PRIVATE KEY", "PUBLIC KEY", "PARAMETERS"].map { Array($0.utf8) }

  /// The cipher of a key that is encrypted in the form that PKCS#8 replaced.
  static func cipher(in bytes: [UInt8]) -> String? {
    let field = Array("DEK-Info: ".utf8)
    guard let start = bytes.indices.first(where: { bytes[$0] == field[0] && bytes[$0...].starts(with: field) }) else {
      return nil
    }
    let name = bytes[(start + field.count)...].prefix(40).prefix { $0 != UInt8(ascii: ",") && $0 > 0x20 }
    return String(decoding: name, as: UTF8.self)
  }

  private static func contains(_ text: StaticString, _ bytes: [UInt8]) -> Bool {
    let wanted = Array(text.description.utf8)
    return bytes.indices.contains { bytes[$0] == wanted[0] && bytes[$0...].starts(with: wanted) }
  }
}
