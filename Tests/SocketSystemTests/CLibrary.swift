import Glibc
import SocketSystem
import Testing

/// What the C library makes of the same addresses.
enum CLibrary {
  static func ipv4(_ text: String) -> UInt32? {
    var form = in_addr()
    // SAFETY: inet_pton writes one in_addr for this family.
    return unsafe inet_pton(AF_INET, text, &form) == 1 ? UInt32(bigEndian: form.s_addr) : nil
  }

  static func ipv6(_ text: String) -> [UInt8]? {
    var form = [UInt8](repeating: 0, count: 16)
    // SAFETY: inet_pton writes 16 bytes for this family.
    return unsafe inet_pton(AF_INET6, text, &form) == 1 ? form : nil
  }

  static func text(_ address: IPv4Address) -> String { text(AF_INET, address.rawValue.bigEndian) }

  static func text(_ address: IPv6Address) -> String {
    func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) }.bigEndian }
    return text(AF_INET6, (number(address.bytes[..<8]), number(address.bytes[8...])))
  }

  private static func text<Form>(_ family: Int32, _ form: Form) -> String {
    var text = [CChar](repeating: 0, count: 64)
    // SAFETY: the form has the size of the family's address, and the text the size that is given.
    _ = unsafe withUnsafeBytes(of: form) { unsafe inet_ntop(family, $0.baseAddress, &text, 64) }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// A kind of addresses, with addresses at its ends and beside them.
struct AddressKind<Address> {
  let name: String
  let has: (Address) -> Bool
  let inside: [String]
  let outside: [String]

  init(_ name: String, _ has: @escaping (Address) -> Bool, _ inside: [String], outside: [String]) {
    self.name = name
    self.has = has
    self.inside = inside
    self.outside = outside
  }

  func check(_ parse: (String) -> Address?) {
    for text in inside { #expect(parse(text).map(has) == true, "\(text) is \(name)") }
    for text in outside { #expect(parse(text).map(has) == false, "\(text) is not \(name)") }
  }
}
