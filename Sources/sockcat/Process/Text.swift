extension UInt8 {
  /// The byte, as a small letter if it is a capital letter of ASCII.
  var lowercasedASCII: UInt8 { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 0x20 : self }
}

extension StringProtocol {
  /// The text in quotation marks, as printable ASCII, cut after 100 characters. Line breaks, control sequences and right-to-left marks
  /// would deceive the reader of a terminal.
  var quoted: String {
    var shown = ""
    var length = 0
    for scalar in unicodeScalars {
      let escaped = scalar.value == 39 ? "'" : scalar.escaped(asASCII: true)
      length += escaped.utf8.count
      if length > 100 { return "\"\(shown)…\"" }
      shown += escaped
    }
    return "\"\(shown)\""
  }
}
