internal import SocketSystem

// CONNECT, the client's side: RFC 9110, section 9.3.6, with the messages of HTTP/1.1, RFC 9112.
//
//   start ──request──▶ answer ──2xx──▶ done
//                       │  ▲
//                       └1xx (at most 8 of them)
//
// The answer ends with its first empty line. A 2xx answer has no body, whatever its fields say; what follows belongs to the stream.

struct HTTPConnectPreamble: Preamble {
  /// The longest header of an answer.
  let limit = 16_384
  private static let mostInterimAnswers = 8

  private let request: [UInt8]
  private var isSent = false
  private var interimAnswers = 0

  init(to target: ProxyTarget, _ credentials: Proxy.Credentials?) throws(SocketError) {
    let host =
      switch target.host {
      case .name(let name): name
      case .address(.ipv4(let address)): "\(address)"
      case .address(.ipv6(let address)): "[\(address)]"
      }
    var request = "CONNECT \(host):\(target.port) HTTP/1.1\r\nHost: \(host):\(target.port)\r\n"
    if let credentials {
      let isControl = { (byte: UInt8) in byte < 32 || byte == 127 }
      guard !credentials.username.utf8.contains(UInt8(ascii: ":")),
        !credentials.username.utf8.contains(where: isControl),
        !credentials.password.utf8.contains(where: isControl)
      else {
        throw .invalid(
          "connect", "the name for an HTTP proxy has no colon, and neither it nor the password has control characters")
      }
      request +=
        "Proxy-Authorization: Basic \(base64(Array("\(credentials.username):\(credentials.password)".utf8)))\r\n"
    }
    self.request = Array((request + "\r\n").utf8)
  }

  let awaited = "the HTTP proxy's answer to CONNECT"

  mutating func next(_ arrived: [UInt8], isAtEnd: Bool) throws(SocketError) -> PreambleStep {
    if !isSent {
      isSent = true
      return .send(request, taking: 0)
    }
    let start = Array("HTTP/1.".utf8)
    if !arrived.starts(with: start.prefix(arrived.count)) { throw failure("the answer is not HTTP/1.1") }
    guard let end = Self.endOfHeader(arrived) else { return .wait }
    let line = arrived.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count >= 2, parts[0].count == 8, UInt8(decimalDigits: parts[0].suffix(1)) != nil, parts[1].count == 3,
      let status = UInt16(decimalDigits: parts[1])
    else {
      throw failure("the status line is not valid: \(Self.quote(line))")
    }
    switch status {
    // The connection would not change its protocol: that was not asked for.
    case 101: throw failure("it changed the protocol: \(Self.quote(line))")
    case 100..<200:
      interimAnswers += 1
      if interimAnswers > Self.mostInterimAnswers {
        throw failure("it sent more than \(Self.mostInterimAnswers) interim answers")
      }
      return .send([], taking: end)
    case 200..<300: return .done(taking: end)
    // Some proxies answer 401 in place of 407.
    case 401, 407: throw refusal(.proxyAuthenticationFailed, line)
    default: throw refusal(.proxyRefused, line)
    }
  }

  /// The number of bytes through the first empty line; `nil` if it has not arrived. A line may end with LF only: RFC 9112, section 2.2.
  private static func endOfHeader(_ bytes: [UInt8]) -> Int? {
    var lineIsEmpty = false
    for (index, byte) in bytes.enumerated() {
      switch byte {
      case UInt8(ascii: "\n"):
        if lineIsEmpty { return index + 1 }
        lineIsEmpty = true
      case UInt8(ascii: "\r"): continue
      default: lineIsEmpty = false
      }
    }
    return nil
  }

  private func refusal(_ code: SocketError.Code, _ line: ArraySlice<UInt8>) -> SocketError {
    SocketError(code, operation: "connect", detail: "the HTTP proxy answered \(Self.quote(line))")
  }

  private static func quote(_ line: ArraySlice<UInt8>) -> String {
    AddressError.quote(String(decoding: line, as: UTF8.self))
  }
}

/// RFC 4648, section 4.
func base64(_ bytes: [UInt8]) -> String {
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  var text: [UInt8] = []
  for start in stride(from: 0, to: bytes.count, by: 3) {
    let group = bytes[start..<min(start + 3, bytes.count)]
    let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
    for position in 0..<4 {
      text.append(position <= group.count ? alphabet[bits >> (18 - 6 * position) & 63] : UInt8(ascii: "="))
    }
  }
  return String(decoding: text, as: UTF8.self)
}
