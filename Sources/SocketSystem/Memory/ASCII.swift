// Text from peers, and paths, is compared as bytes: `String` compares by canonical equivalence, and finds whole characters.

extension UInt8 {
  /// Names of hosts and the words of protocols are compared without regard to the case of ASCII letters only.
  package var lowercasedASCII: UInt8 { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 0x20 : self }
}

extension StringProtocol {
  /// The form in which names of hosts are compared: in lower case, and without the dot that may end the name.
  package var hostNameBytes: [UInt8] {
    let bytes = utf8.map(\.lowercasedASCII)
    return bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes
  }

  package func parts(at separator: Unicode.Scalar) -> [String] {
    utf8.split(separator: UInt8(ascii: separator), omittingEmptySubsequences: false).map {
      String(decoding: $0, as: UTF8.self)
    }
  }
}
