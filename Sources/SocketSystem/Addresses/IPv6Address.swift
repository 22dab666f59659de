import Glibc

/// An IPv6 address: 128 bits (RFC 4291), and a scope that names the interface on which the address is valid (RFC 4007).
///
/// The scope is part of the value. `fe80::1%1` and `fe80::1%2` are different machines, so they are not equal.
public struct IPv6Address: Sendable, Hashable {
  /// The first 64 bits in host byte order. `low` has the others.
  package var high: UInt64
  package var low: UInt64

  /// The index of the interface on which the address is valid, or 0 for none: `sin6_scope_id` in ipv6(7).
  public var scopeID: UInt32

  package init(high: UInt64, low: UInt64, scopeID: UInt32 = 0) {
    self.high = high
    self.low = low
    self.scopeID = scopeID
  }

  /// Creates an address from its 16 bytes. Returns `nil` for any other number of bytes.
  ///
  /// - Parameters:
  ///   - bytes: The address in network byte order.
  ///   - scopeID: The index of the interface on which the address is valid, or 0 for none.
  public init?(bytes: some Collection<UInt8>, scopeID: UInt32 = 0) {
    guard bytes.count == 16 else { return nil }
    func number(_ half: some Sequence<UInt8>) -> UInt64 { half.reduce(0) { $0 << 8 | UInt64($1) } }
    self.init(high: number(bytes.prefix(8)), low: number(bytes.dropFirst(8)), scopeID: scopeID)
  }

  /// Creates the IPv4-mapped address `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2). A dual-stack socket shows an IPv4
  /// peer by such an address.
  ///
  /// - Parameter ipv4: The IPv4 address.
  public init(mapped ipv4: IPv4Address) {
    self.init(high: 0, low: 0xffff << 32 | UInt64(ipv4.rawValue))
  }

  /// The address `::`. A listener that binds to it listens on all addresses of this machine (`in6addr_any`, ipv6(7)).
  public static let any = IPv6Address(high: 0, low: 0)
  /// The address `::1`, which is this machine (`in6addr_loopback`, ipv6(7)).
  public static let loopback = IPv6Address(high: 0, low: 1)

  /// The 16 bytes in network byte order.
  public var bytes: [UInt8] {
    [high, low].flatMap { half in stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: half >> $0) } }
  }

  /// Whether the address is an IPv4 address in IPv6 form, `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2).
  public var isIPv4Mapped: Bool { high == 0 && low >> 32 == 0xffff }

  /// The IPv4 address in an IPv4-mapped address. It is `nil` for every other address.
  public var ipv4: IPv4Address? { isIPv4Mapped ? IPv4Address(rawValue: UInt32(truncatingIfNeeded: low)) : nil }

  // On the wire, an IPv4-mapped address is the IPv4 address in it. So the properties below describe the IPv4 address.
  // Otherwise a rule such as "loopback only" would depend on whether the listener is dual-stack.

  /// Whether the address is `::`, or 0.0.0.0 IPv4-mapped.
  public var isUnspecified: Bool { ipv4?.isUnspecified ?? (high == 0 && low == 0) }
  /// Whether the address is `::1` (RFC 4291, section 2.5.3), or in 127.0.0.0/8 IPv4-mapped.
  public var isLoopback: Bool { ipv4?.isLoopback ?? (high == 0 && low == 1) }
  /// Whether the address is in `ff00::/8` (RFC 4291, section 2.7), or in 224.0.0.0/4 IPv4-mapped.
  public var isMulticast: Bool { ipv4?.isMulticast ?? (high >> 56 == 0xff) }
  /// Whether the address is in `fe80::/10` (RFC 4291, section 2.5.6), or in 169.254.0.0/16 IPv4-mapped.
  public var isLinkLocal: Bool { ipv4?.isLinkLocal ?? (high >> 54 == 0xfe80 >> 6) }

  private var groups: [UInt16] {
    [high, low].flatMap { half in [48, 32, 16, 0].map { UInt16(truncatingIfNeeded: half >> $0) } }
  }
}

// MARK: Text

extension IPv6Address: LosslessStringConvertible {
  /// The address in the canonical form of RFC 5952, followed by `%` and the scope if it has one (RFC 4007, section 11).
  ///
  /// The scope is written as the name that if_indextoname(3) reports now for the interface. If there is no such name,
  /// the scope is written as its number.
  public var description: String {
    scopeID == 0 ? addressText : "\(addressText)%\(Self.scopeText(scopeID))"
  }

  /// Reads an address in one of the forms of RFC 4291, section 2.2, as inet_pton(3) does. A scope may follow.
  ///
  /// The scope follows a `%` (RFC 4007, section 11). It is a number or the name of an interface of this machine.
  /// if_nametoindex(3) looks up the name.
  ///
  /// - Parameter text: The address and nothing else: no brackets, no prefix length, no white space.
  /// - Throws: `AddressError` with the reason `.ipv6Address`, or `.unknownInterface` if no interface has that name.
  public init(parsing text: String) throws(AddressError) {
    let bytes = Array(text.utf8)[...]
    do throws(AddressProblem) {
      let percent = bytes.firstIndex(of: UInt8(ascii: "%")) ?? bytes.endIndex
      self = try Self.parse(bytes[..<percent])
      if percent < bytes.endIndex { scopeID = try Self.parseScope(bytes[(percent + 1)...]) }
    } catch {
      throw AddressError(text: text, reason: error.reason ?? .ipv6Address, detail: error.detail)
    }
  }

  /// Reads an address as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let address = try? Self(parsing: description) else { return nil }
    self = address
  }
}

// MARK: Printing

extension IPv6Address {
  /// RFC 5952: no leading zeros, lower case, the longest run of zero groups as `::` (section 4), and the last 32 bits of an IPv4-mapped
  /// address in dotted decimal (section 5).
  private var addressText: String {
    if let ipv4 { return "::ffff:\(ipv4)" }
    let groups = groups
    func text(_ range: Range<Int>) -> String {
      groups[range].map { String($0, radix: 16) }.joined(separator: ":")
    }
    guard let zeros = Self.longestZeroRun(groups) else { return text(0..<8) }
    return "\(text(0..<zeros.lowerBound))::\(text(zeros.upperBound..<8))"
  }

  /// The first of the longest runs of at least two zero groups (RFC 5952, sections 4.2.2 and 4.2.3).
  private static func longestZeroRun(_ groups: [UInt16]) -> Range<Int>? {
    var longest = 0..<1
    var start = 0
    for (index, group) in groups.enumerated() {
      if group != 0 {
        start = index + 1
      } else if index + 1 - start > longest.count {
        longest = start..<(index + 1)
      }
    }
    return longest.count > 1 ? longest : nil
  }

  /// The interface's name if it can be read back, or else the number. A name of digits would be read as an index.
  private static func scopeText(_ scopeID: UInt32) -> String {
    var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
    // SAFETY: if_indextoname writes at most IF_NAMESIZE bytes, the NUL included, and the array has that many.
    let found = unsafe if_indextoname(scopeID, &name) != nil
    let bytes = name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    let isPrintable = bytes.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    let isNumber = bytes.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
    return found && isPrintable && !isNumber ? String(decoding: bytes, as: UTF8.self) : String(scopeID)
  }
}

// MARK: Reading

extension IPv6Address {
  private static func parse(_ text: ArraySlice<UInt8>) throws(AddressProblem) -> IPv6Address {
    guard !text.isEmpty else { throw AddressProblem("it is empty") }
    guard let gap = firstDoubleColon(text) else {
      let groups = try parseGroups(text, allowsIPv4: true)
      guard groups.count == 8 else {
        throw AddressProblem("it has \(counted(groups.count)) where 8, or a \"::\", are needed")
      }
      return IPv6Address(groups: groups)
    }
    let tail = text[(gap + 2)...]
    guard firstDoubleColon(tail) == nil else { throw AddressProblem("it has more than one \"::\"") }
    let left = try parseGroups(text[..<gap], allowsIPv4: false)
    let right = try parseGroups(tail, allowsIPv4: true)
    let missing = 8 - left.count - right.count
    guard missing > 0 else {
      throw AddressProblem("it has \(counted(8 - missing)) beside the \"::\", where 7 are the most")
    }
    return IPv6Address(groups: left + [UInt16](repeating: 0, count: missing) + right)
  }

  private init(groups: [UInt16]) {
    assert(groups.count == 8, "an IPv6 address has 8 groups")
    func number(_ half: ArraySlice<UInt16>) -> UInt64 { half.reduce(0) { $0 << 16 | UInt64($1) } }
    self.init(high: number(groups[..<4]), low: number(groups[4...]))
  }

  private static func counted(_ groups: Int) -> String { groups == 1 ? "1 group" : "\(groups) groups" }

  private static func firstDoubleColon(_ text: ArraySlice<UInt8>) -> Int? {
    zip(text.indices, text.indices.dropFirst())
      .first { text[$0] == UInt8(ascii: ":") && text[$1] == UInt8(ascii: ":") }?.0
  }

  /// The last group may be an IPv4 address, which makes two groups.
  private static func parseGroups(_ text: ArraySlice<UInt8>, allowsIPv4: Bool) throws(AddressProblem) -> [UInt16] {
    guard !text.isEmpty else { return [] }
    var groups: [UInt16] = []
    let parts = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
      if part.contains(UInt8(ascii: ".")) {
        guard allowsIPv4, index == parts.count - 1 else {
          throw AddressProblem("an IPv4 address can stand only at its end")
        }
        groups += try parseIPv4(part)
      } else {
        groups.append(try parseGroup(part))
      }
    }
    return groups
  }

  private static func parseGroup(_ digits: ArraySlice<UInt8>) throws(AddressProblem) -> UInt16 {
    guard !digits.isEmpty else { throw AddressProblem("it has a colon that no group stands beside") }
    var value: UInt16 = 0
    for digit in digits {
      guard let number = Character(Unicode.Scalar(digit)).hexDigitValue else {
        throw AddressProblem("it has a character that is neither a hexadecimal digit nor a colon")
      }
      value = value << 4 | UInt16(number)
    }
    guard digits.count <= 4 else { throw AddressProblem("a group has more than 4 digits") }
    return value
  }

  private static func parseIPv4(_ text: ArraySlice<UInt8>) throws(AddressProblem) -> [UInt16] {
    do throws(AddressProblem) {
      let address = try IPv4Address.parse(text)
      return [UInt16(address.rawValue >> 16), UInt16(address.rawValue & 0xffff)]
    } catch {
      throw AddressProblem("of the IPv4 address at its end, \(error.detail)")
    }
  }

  private static func parseScope(_ text: ArraySlice<UInt8>) throws(AddressProblem) -> UInt32 {
    guard !text.isEmpty else { throw AddressProblem("the scope behind \"%\" is empty") }
    if text.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) {
      guard let number = UInt32(decimalDigits: text) else {
        throw AddressProblem("the scope behind \"%\" is more than \(UInt32.max)")
      }
      return number
    }
    let name = String(decoding: text, as: UTF8.self)
    // A C function would read only the part of the name before a NUL.
    // SAFETY: the compiler lends a NUL-terminated copy of the name for the call.
    let index = text.contains(0) ? 0 : unsafe if_nametoindex(name)
    guard index != 0 else {
      throw AddressProblem(
        "there is no network interface called \(AddressError.quote(name))", reason: .unknownInterface)
    }
    return index
  }
}
