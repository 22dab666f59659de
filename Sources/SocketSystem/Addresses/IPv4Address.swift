/// An IPv4 address: 32 bits, written as four decimal numbers (RFC 791).
public struct IPv4Address: Sendable, Hashable {
  /// The 32 bits as a number in host byte order. 127.0.0.1 is `0x7f00_0001`.
  public var rawValue: UInt32

  /// Creates an address from its 32 bits.
  ///
  /// - Parameter rawValue: The bits as a number in host byte order.
  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// Creates an address from its four parts, in the order in which they are written.
  public init(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) {
    rawValue = UInt32(a) << 24 | UInt32(b) << 16 | UInt32(c) << 8 | UInt32(d)
  }

  /// In network byte order.
  package var bytes: [UInt8] { rawValue.bigEndianBytes }

  /// The address 0.0.0.0. A listener that binds to it listens on all IPv4 addresses of this machine (`INADDR_ANY`,
  /// ip(7)).
  public static let any = IPv4Address(rawValue: 0)
  /// The address 127.0.0.1, which is this machine (`INADDR_LOOPBACK`, ip(7)).
  public static let loopback = IPv4Address(127, 0, 0, 1)
  /// The address 255.255.255.255, which is every machine on the local network (RFC 919, section 7).
  public static let broadcast = IPv4Address(rawValue: .max)

  /// Whether the address is 0.0.0.0.
  public var isUnspecified: Bool { rawValue == 0 }
  /// Whether the address is in 127.0.0.0/8 (RFC 1122, section 3.2.1.3).
  public var isLoopback: Bool { rawValue >> 24 == 127 }
  /// Whether the address is in 224.0.0.0/4 (RFC 5771).
  public var isMulticast: Bool { rawValue >> 28 == 0b1110 }
  /// Whether the address is in 169.254.0.0/16 (RFC 3927).
  public var isLinkLocal: Bool { rawValue >> 16 == 169 << 8 | 254 }
  /// Whether the address is in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 (RFC 1918).
  public var isPrivate: Bool {
    rawValue >> 24 == 10 || rawValue >> 20 == 172 << 4 | 1 || rawValue >> 16 == 192 << 8 | 168
  }
}

// MARK: Text

extension IPv4Address: LosslessStringConvertible {
  /// The four parts in decimal, as in `192.0.2.1`.
  public var description: String {
    "\(rawValue >> 24).\(rawValue >> 16 & 0xff).\(rawValue >> 8 & 0xff).\(rawValue & 0xff)"
  }

  /// Reads an address in dotted decimal form, as inet_pton(3) does.
  ///
  /// The text must have exactly four decimal parts without leading zeros. The older forms of inet_aton(3) mean
  /// different addresses to different programs, so they are refused: `127.1`, `0x7f.0.0.1`, and `010.0.0.1` for
  /// 8.0.0.1.
  ///
  /// - Parameter text: The address and nothing else. White space is refused too.
  /// - Throws: `AddressError` with the reason `.ipv4Address`.
  public init(parsing text: String) throws(AddressError) {
    do throws(AddressProblem) {
      self = try Self.parse(Array(text.utf8)[...])
    } catch {
      throw AddressError(text: text, reason: .ipv4Address, detail: error.detail)
    }
  }

  /// Reads an address as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let address = try? Self(parsing: description) else { return nil }
    self = address
  }

  /// Also for the last part of an IPv6 address, which may have this form.
  static func parse(_ text: ArraySlice<UInt8>) throws(AddressProblem) -> IPv4Address {
    guard !text.isEmpty else { throw AddressProblem("it is empty") }
    let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 4 else {
      throw AddressProblem("it has \(parts.count) \(parts.count == 1 ? "part" : "parts") where 4 are needed")
    }
    var value: UInt32 = 0
    for (index, part) in parts.enumerated() {
      value = try value << 8 | UInt32(parsePart(part, number: index + 1))
    }
    return IPv4Address(rawValue: value)
  }

  private static func parsePart(_ digits: ArraySlice<UInt8>, number: Int) throws(AddressProblem) -> UInt8 {
    guard let first = digits.first else { throw AddressProblem("part \(number) is empty") }
    guard digits.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) else {
      throw AddressProblem("part \(number) has a character that is not a digit")
    }
    guard first != UInt8(ascii: "0") || digits.count == 1 else {
      throw AddressProblem("part \(number) has a leading zero, which some programs would read as octal")
    }
    guard let value = UInt8(decimalDigits: digits) else {
      throw AddressProblem("part \(number) is more than 255")
    }
    return value
  }
}
