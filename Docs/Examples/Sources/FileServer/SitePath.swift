import HTTPTypes

/// The names of the folders and the file that the path of a URL leads to.
struct SitePath: Hashable, Sendable {
  /// The names. No name is empty, `.`, `..`, or contains a slash or a NUL.
  var names: [String] = []
  /// Whether the path ends with a slash.
  var isFolder = false

  /// Parses a path, decodes it, and removes what is no name.
  ///
  /// - Parameter path: The path, perhaps with a query.
  /// - Throws: `RefusedRequest`: 400 if the path is not valid, 403 if a part of it is `..`.
  init(parsing path: String) throws(RefusedRequest) {
    let path = path.prefix { $0 != "?" && $0 != "#" }
    guard path.utf8.first == UInt8(ascii: "/") else { throw RefusedRequest(.badRequest) }
    for part in path.split(separator: "/") {
      guard let name = Self.decode(part), !name.utf8.contains(0), !name.utf8.contains(UInt8(ascii: "/")) else {
        throw RefusedRequest(.badRequest)
      }
      // Clients resolve these themselves. A client that sends one is looking for files that it must not have.
      if name == ".." { throw RefusedRequest(.forbidden) }
      if name != "." { names.append(name) }
    }
    isFolder = path.utf8.last == UInt8(ascii: "/")
  }

  /// Returns a text without its percent-encoding; `nil` if that is not valid.
  private static func decode(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      if byte != UInt8(ascii: "%") {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst()?.hexDigit, let low = rest.popFirst()?.hexDigit else { return nil }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The path of the same names with a slash at its end, for a Location field.
  var asFolder: String {
    let allowed = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes = [UInt8(ascii: "/")]
    for name in names {
      for byte in name.utf8 {
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
