import ActorSockets

/// `socks5://host:port` or `http://host:port`, with `user@` or `user:password@` before the host: RFC 3986, section 3.2.
/// No failure contains the text before the host, because there may be a password in it.
enum ProxyURL {
  /// Has the password for a user without one.
  static let passwordVariable = "SOCKCAT_PROXY_PASSWORD"

  static func proxy(
    _ text: String, password: () -> String? = { variable(passwordVariable) }
  ) throws(Failure) -> Proxy {
    guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else { throw malformed }
    let authority = text[colon...].dropFirst(3)
    let at = authority.lastIndex(of: "@")
    var host = authority[(at.map { authority.index(after: $0) } ?? authority.startIndex)...]
    if host.last == "/" { host.removeLast() }
    // An empty host would be this machine. Here it is more likely a mistake.
    if host.isEmpty || host.first == ":" { throw malformed }
    let endpoint: Endpoint
    do {
      endpoint = try Endpoint(parsing: String(host))
    } catch {
      throw .usage("--proxy: \(error)")
    }
    var credentials: Proxy.Credentials?
    if let at { credentials = try self.credentials(authority[..<at], password) }
    switch text[..<colon].lowercased() {
    case "socks5": return .socks5(endpoint, credentials: credentials)
    case "http": return .http(endpoint, credentials: credentials)
    default: throw malformed
    }
  }

  private static func credentials(
    _ text: Substring, _ password: () -> String?
  ) throws(Failure) -> Proxy.Credentials {
    let colon = text.firstIndex(of: ":")
    let username = try decoded(text[..<(colon ?? text.endIndex)])
    if username.isEmpty { throw .usage("--proxy has no name of a user before the @") }
    if let colon {
      return Proxy.Credentials(username: username, password: try decoded(text[text.index(after: colon)...]))
    }
    guard let password = password() else {
      throw .usage("--proxy has a user but no password: set \(passwordVariable) in the environment")
    }
    return Proxy.Credentials(username: username, password: password)
  }

  /// In the text, `%` and two hexadecimal digits stand for a byte.
  private static func decoded(_ text: Substring) throws(Failure) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = rest.prefix(2)
      guard digits.count == 2, digits.allSatisfy(isHexadecimal), let value = UInt8(String(digits) ?? "", radix: 16)
      else {
        throw .usage("--proxy: after a % in the name or password, two hexadecimal digits must follow; %25 is a %")
      }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw .usage("--proxy: the name or the password is not valid UTF-8")
    }
    return text
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }

  private static var malformed: Failure {
    .usage("--proxy takes socks5://host:port or http://host:port, with or without user@ before the host")
  }
}
