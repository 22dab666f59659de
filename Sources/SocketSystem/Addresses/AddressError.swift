/// Explains why a text is not an address.
///
/// The description is one sentence. It names the text and what to change in it, for example
/// `"1.2.3" is not an IPv4 address: it has 3 parts where 4 are needed`. The text may come from a peer, so the
/// description escapes it and shows at most 100 characters.
public struct AddressError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The kind of address that was expected, or the missing thing that the text names. Later versions may add reasons.
  public struct Reason: Hashable, Sendable, CustomStringConvertible {
    /// The kind of address with its article, for example "an IPv4 address". It follows "is not" in the sentence.
    public let description: String

    package init(isNot description: String) {
      self.description = description
    }

    /// The text is not an IPv4 address in dotted decimal form.
    public static let ipv4Address = Reason(isNot: "an IPv4 address")
    /// The text is not an IPv6 address in one of the forms of RFC 4291.
    public static let ipv6Address = Reason(isNot: "an IPv6 address")
    /// The scope of the IPv6 address names a network interface that this machine does not have.
    public static let unknownInterface = Reason(isNot: "an address on this machine")
    /// The text is not an address with a port, nor `unix:` with a path.
    public static let socketAddress = Reason(isNot: "a socket address")
    /// The text is not a port number.
    public static let port = Reason(isNot: "a port")
    /// The text is not a network of IP addresses.
    public static let network = Reason(isNot: "a network")
    /// The text cannot be the name of a unix socket.
    public static let unixPath = Reason(isNot: "the path of a unix socket")
  }

  /// The whole refused text, exactly as it was given. Escape it before you show it to anyone.
  public let text: String

  /// The kind of address that the text is not.
  public let reason: Reason

  /// A clause that completes the sentence. Nothing in it needs escaping.
  package let detail: String

  package init(text: String, reason: Reason, detail: String) {
    self.text = text
    self.reason = reason
    self.detail = detail
  }

  /// The error as one sentence without a full stop.
  public var description: String {
    "\(Self.quote(text)) is not \(reason): \(detail)"
  }

  /// Returns the text in quotation marks, as printable ASCII, cut after 100 characters.
  ///
  /// This makes a peer's text safe to show in a terminal or a log file. Line breaks, control sequences and
  /// right-to-left marks would deceive the reader there.
  ///
  /// - Parameter text: The text, of any length.
  /// - Returns: The text in quotation marks. Other characters than printable ASCII are escaped as in Swift.
  public static func quote(_ text: String) -> String {
    let limit = 100
    var shown = ""
    var length = 0
    for scalar in text.unicodeScalars {
      let escaped = scalar == "'" ? "'" : scalar.escaped(asASCII: true)
      length += escaped.utf8.count
      if length > limit { return "\"\(shown)…\"" }
      shown += escaped
    }
    return "\"\(shown)\""
  }
}

/// A fault in a part of a text. The function that finds it does not know the whole text.
struct AddressProblem: Error {
  var detail: String
  var reason: AddressError.Reason?

  init(_ detail: String, reason: AddressError.Reason? = nil) {
    self.detail = detail
    self.reason = reason
  }
}

extension FixedWidthInteger where Self: UnsignedInteger {
  /// `nil` if there are no digits, if there is any other character, or if the number does not fit. (The standard library also accepts a
  /// sign.)
  package init?(decimalDigits digits: some Collection<UInt8>) {
    guard !digits.isEmpty else { return nil }
    var value: Self = 0
    for digit in digits {
      guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
      let (tens, tooLarge) = value.multipliedReportingOverflow(by: 10)
      let (sum, tooLargeByDigit) = tens.addingReportingOverflow(Self(digit - UInt8(ascii: "0")))
      guard !tooLarge, !tooLargeByDigit else { return nil }
      value = sum
    }
    self = value
  }
}
