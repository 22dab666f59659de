import Glibc

/// An IPv6 address: 128 bits (RFC 4291), with the scope that says on which interface it is meant (RFC 4007).
///
/// The scope is a part of the value: `fe80::1%1` and `fe80::1%2` are different machines, and unequal.
public struct IPv6Address: Sendable, Hashable {
  /// The first 64 bits, host order.
  package var high: UInt64
  /// The last 64 bits, host order.
  var low: UInt64

  /// The index of the interface on which the address is meant, 0 for none: `sin6_scope_id` in ipv6(7).
  public var scopeID: UInt32

  /// Makes an address from two halves in host order.
  init(high: UInt64, low: UInt64, scopeID: UInt32 = 0) {
    self.high = high
    self.low = low
    self.scopeID = scopeID
  }

  /// Makes an address from its 16 bytes; nil for any other number of bytes.
  ///
  /// - Parameters:
  ///   - bytes: The address in network order.
  ///   - scopeID: The index of the interface on which the address is meant; 0 for none.
  public init?(bytes: some Collection<UInt8>, scopeID: UInt32 = 0) {
    guard bytes.count == 16 else { return nil }
    func number(_ half: some Sequence<UInt8>) -> UInt64 { half.reduce(0) { $0 << 8 | UInt64($1) } }
    self.init(high: number(bytes.prefix(8)), low: number(bytes.dropFirst(8)), scopeID: scopeID)
  }

  /// Makes the IPv4-mapped address `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2), as which dual-stack sockets see
  /// IPv4 peers.
  ///
  /// - Parameter ipv4: The address to be mapped.
  public init(mapped ipv4: IPv4Address) {
    self.init(high: 0, low: 0xffff << 32 | UInt64(ipv4.rawValue))
  }

  /// `::`, which a listener binds to for all of the machine's addresses (`in6addr_any`, see ipv6(7)).
  public static let any = IPv6Address(high: 0, low: 0)
  /// `::1`, the machine itself (`in6addr_loopback`, see ipv6(7)).
  public static let loopback = IPv6Address(high: 0, low: 1)

  /// The 16 bytes in network order.
  public var bytes: [UInt8] {
    [high, low].flatMap { half in stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: half >> $0) } }
  }

  /// Whether the address is an IPv4 address in IPv6 form, `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2).
  public var isIPv4Mapped: Bool { high == 0 && low >> 32 == 0xffff }

  /// The IPv4 address if this one is IPv4-mapped, else nil.
  public var ipv4: IPv4Address? { isIPv4Mapped ? IPv4Address(rawValue: UInt32(truncatingIfNeeded: low)) : nil }

  // An IPv4-mapped address is on the wire the IPv4 address in it, so it is judged as that: a rule such as
  // "loopback only" would otherwise depend on whether the listener is dual-stack.

  /// Whether the address is `::`, or 0.0.0.0 IPv4-mapped.
  public var isUnspecified: Bool { ipv4?.isUnspecified ?? (high == 0 && low == 0) }
  /// Whether the address is `::1` (RFC 4291, section 2.5.3), or in 127.0.0.0/8 IPv4-mapped.
  public var isLoopback: Bool { ipv4?.isLoopback ?? (high == 0 && low == 1) }
  /// Whether the address is in `ff00::/8` (RFC 4291, section 2.7), or in 224.0.0.0/4 IPv4-mapped.
  public var isMulticast: Bool { ipv4?.isMulticast ?? (high >> 56 == 0xff) }
  /// Whether the address is in `fe80::/10` (RFC 4291, section 2.5.6), or in 169.254.0.0/16 IPv4-mapped.
  public var isLinkLocal: Bool { ipv4?.isLinkLocal ?? (high >> 54 == 0xfe80 >> 6) }

  /// The eight 16-bit groups that are written between the colons.
  private var groups: [UInt16] {
    [high, low].flatMap { half in [48, 32, 16, 0].map { UInt16(truncatingIfNeeded: half >> $0) } }
  }
}

// MARK: Text

extension IPv6Address: LosslessStringConvertible {
  /// The address in the one form of RFC 5952, with the scope behind `%` (RFC 4007, section 11).
  ///
  /// The scope is the interface's name, as if_indextoname(3) tells it now, or the number where there is none.
  public var description: String {
    scopeID == 0 ? addressText : "\(addressText)%\(Self.scopeText(scopeID))"
  }

  /// Reads an address in one of the forms of RFC 4291, section 2.2, as inet_pton(3) does, with an optional scope.
  ///
  /// The scope follows a `%` (RFC 4007, section 11): a number, or the name of an interface of this machine,
  /// which is looked up with if_nametoindex(3).
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

  /// Reads an address as `init(parsing:)` does; nil where that throws.
  public init?(_ description: String) {
    guard let address = try? Self(parsing: description) else { return nil }
    self = address
  }
}

// MARK: Printing

extension IPv6Address {
  /// RFC 5952: no leading zeros, lower case, the longest run of zero groups as `::` (section 4), and the last
  /// 32 bits of an IPv4-mapped address in dotted decimal (section 5).
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

  /// The interface's name if it can be read back, else the number: a name of digits would be taken for an index.
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
    func number(_ half: ArraySlice<UInt16>) -> UInt64 { half.reduce(0) { $0 << 16 | UInt64($1) } }
    self.init(high: number(groups[..<4]), low: number(groups[4...]))
  }

  private static func counted(_ groups: Int) -> String { groups == 1 ? "1 group" : "\(groups) groups" }

  private static func firstDoubleColon(_ text: ArraySlice<UInt8>) -> Int? {
    zip(text.indices, text.indices.dropFirst())
      .first { text[$0] == UInt8(ascii: ":") && text[$1] == UInt8(ascii: ":") }?.0
  }

  /// Reads groups with single colons between them; the last may be an IPv4 address, which makes two groups.
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
    // A C function would take what stands before a NUL for the whole name.
    // SAFETY: the compiler lends a NUL-terminated copy of the name for the call.
    let index = text.contains(0) ? 0 : unsafe if_nametoindex(name)
    guard index != 0 else {
      throw AddressProblem(
        "there is no network interface called \(AddressError.quote(name))", reason: .unknownInterface)
    }
    return index
  }
}
