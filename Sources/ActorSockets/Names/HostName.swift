package import SocketSystem

// The meaning of a text where a host is expected. Names are bytes: RFC 4343 compares letters of ASCII without regard to case, and
// everything else exactly.

package enum HostName: Equatable {
  case empty
  /// An address, in the one form that every program reads alike.
  case address(IPAddress)
  /// This machine: RFC 6761, section 6.3.
  case loopback
  case name
  /// A text that can only be meant as an address and is not one, for example `127.1`; and why.
  case badAddress(String)
  case badName(String)

  init(_ text: String) {
    let bytes = text.utf8
    if bytes.isEmpty {
      self = .empty
      return
    }
    let problem: AddressError
    do {
      self = .address(try IPAddress(parsing: text))
      return
    } catch {
      problem = error
    }
    let key = text.hostNameBytes
    let labels = key.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    if key.isEmpty || key.count > 253 || key.contains(0) {
      self = .badName("\(AddressError.quote(text)) cannot be a host's name")
    } else if bytes.contains(UInt8(ascii: ":")) || labels.allSatisfy(Self.isNumeric) {
      self = .badAddress("\(problem)")
    } else if let last = labels.last, Self.isNumeric(last) {
      self = .badName(
        "\(AddressError.quote(text)) cannot be a host's name, because it ends with a number, and it is no address")
    } else if labels.last.map({ Array($0) == Array("localhost".utf8) }) == true || Self.isAlias(key) {
      self = .loopback
    } else {
      self = .name
    }
  }

  /// Whether a part of a name is a number for inet_aton(3). If the last part is, the text is an address or an error, as in
  /// the URL standard ("ends in a number"): otherwise `0x7f.1` would reach 127.0.0.1, although no check sees that address.
  private static func isNumeric(_ label: ArraySlice<UInt8>) -> Bool {
    let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
    if label.starts(with: "0x".utf8) {
      return label.dropFirst(2).allSatisfy {
        digits.contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
    }
    return !label.isEmpty && label.allSatisfy(digits.contains)
  }

  /// Whether a name means the loopback addresses to this library, but not to other programs.
  private static func isAlias(_ key: [UInt8]) -> Bool { key.elementsEqual("loopback".utf8) }

  /// Returns the name of a host as other machines understand it: `localhost` for the texts by which only this library means
  /// the loopback addresses, and any other text unchanged.
  static func forPeers(_ text: String) -> String { text.isEmpty || isAlias(text.hostNameBytes) ? "localhost" : text }
}

extension HostName {
  static func loopback(_ family: AddressFamily, port: UInt16 = 0) -> SocketAddress {
    family == .ipv4 ? .ipv4(.loopback, port: port) : .ipv6(.loopback, port: port)
  }
}
