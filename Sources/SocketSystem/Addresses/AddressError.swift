/// Why a text is not an address.
///
/// Its description is one sentence that names the text and what to change in it, for example
/// `"1.2.3" is not an IPv4 address: it has 3 parts where 4 are needed`.
/// The text may come from a peer, so the description escapes it and shows no more than 100 characters.
public struct AddressError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What the text was expected to be, or what it names that does not exist; more may be added.
  public struct Reason: Hashable, Sendable, CustomStringConvertible {
    /// What the text is not, with its article: it stands after "is not".
    public let description: String

    /// Makes a reason from what stands after "is not" in the sentence.
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
    /// The text cannot be the name of a unix socket.
    public static let unixPath = Reason(isNot: "the path of a unix socket")
  }

  /// The whole text that was refused, exactly as it was given: escape it before it is shown to anyone.
  public let text: String

  /// What the text is not.
  public let reason: Reason

  /// What is wrong with the text: a clause that completes the sentence, in which nothing needs escaping.
  package let detail: String

  /// Makes an error that reads `"text" is not <reason>: <detail>`.
  package init(text: String, reason: Reason, detail: String) {
    self.text = text
    self.reason = reason
    self.detail = detail
  }

  /// The error as one sentence without a full stop.
  public var description: String {
    "\(Self.quote(text)) is not \(reason): \(detail)"
  }

  /// The text in quotation marks as printable ASCII, cut after 100 characters: what it takes to show a peer's text in a
  /// terminal or a log file, where line breaks, control sequences and right-to-left marks would deceive the reader.
  package static func quote(_ text: String) -> String {
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

/// What is wrong with a part of a text, before the whole text is known to the one who finds it.
struct AddressProblem: Error {
  var detail: String
  var reason: AddressError.Reason?

  init(_ detail: String, reason: AddressError.Reason? = nil) {
    self.detail = detail
    self.reason = reason
  }
}

extension FixedWidthInteger where Self: UnsignedInteger {
  /// The number written with these ASCII digits; nil if there are none, for any other character (the standard
  /// library takes a sign) and for a number that does not fit.
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
