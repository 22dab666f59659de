import ByteText

/// The names of the folders and the file that the path of a URL leads to.
struct SitePath: Hashable, Sendable {
  /// The names. No name is empty, `.`, `..`, or contains a slash or a NUL.
  var names: [ByteText] = []
  /// Whether the path ends with a slash.
  var isFolder = false

  /// Parses a path, decodes it, and removes what is no name.
  ///
  /// - Parameter path: The path, perhaps with a query.
  /// - Throws: `RefusedRequest`: 400 if the path is not valid, 403 if a part of it is `..`.
  init(parsing path: ByteText) throws(RefusedRequest) {
    let path = ByteText(path.bytes.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
    guard path.begins(with: "/") else { throw RefusedRequest(.badRequest) }
    for part in path.parts(at: "/", omitsEmpty: true) {
      guard let name = Self.decode(part), !name.has("\0"), !name.has("/") else { throw RefusedRequest(.badRequest) }
      // Clients resolve these themselves. A client that sends one is looking for files that it must not have.
      if name.equals("..") { throw RefusedRequest(.forbidden) }
      if !name.equals(".") { names.append(name) }
    }
    isFolder = path.ends(with: "/")
  }

  /// Returns a text without its percent-encoding; `nil` if that is not valid.
  private static func decode(_ text: ByteText) -> ByteText? {
    var bytes: [UInt8] = []
    var rest = text.bytes[...]
    while let byte = rest.popFirst() {
      if byte != UInt8(ascii: "%") {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst()?.hexDigit, let low = rest.popFirst()?.hexDigit else { return nil }
      bytes.append(high << 4 | low)
    }
    return ByteText(validating: bytes)
  }

  /// The path of the same names with a slash at its end, for a Location field.
  var asFolder: String {
    let allowed = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes = [UInt8(ascii: "/")]
    for name in names {
      for byte in name.bytes {
        if allowed.contains(byte) {
          bytes.append(byte)
        } else {
          bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
      }
      bytes.append(UInt8(ascii: "/"))
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension UInt8 {
  /// The value of a hexadecimal digit.
  fileprivate var hexDigit: UInt8? {
    switch self {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
