extension UInt8 {
  /// The byte, as a small letter if it is a capital letter of ASCII.
  var lowercasedASCII: UInt8 { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 0x20 : self }
}
