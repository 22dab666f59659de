internal import SocketSystem

// SOCKS 5, the client's side: RFC 1928, with a name and a password as RFC 1929 says.
//
//   start ──greeting──▶ method ──"none needed"──────────────────────────▶ reply ──"succeeded"──▶ done
//                         └──"name and password"──▶ authentication ──"yes"──┘
//
// Each message says how long it is. So nothing is taken that belongs to the stream, however the bytes arrive.

struct SOCKS5Preamble: Preamble {
  private enum Phase {
    case start, method, authentication, reply
  }

  /// A reply with the longest name: 4 bytes, the length, 255 bytes, and the port.
  let limit = 262
  private var phase = Phase.start
  private let request: [UInt8]
  private let authentication: [UInt8]?

  init(to target: ProxyTarget, _ credentials: Proxy.Credentials?) throws(SocketError) {
    request = [5, 1, 0] + Self.bytes(of: target.host) + target.port.bigEndianBytes
    guard let credentials else {
      authentication = nil
      return
    }
    let (username, password) = (Array(credentials.username.utf8), Array(credentials.password.utf8))
    guard (1...255).contains(username.count), (1...255).contains(password.count) else {
      throw .invalid("connect", "the name and the password for a SOCKS 5 proxy must have 1 to 255 bytes each")
    }
    authentication = [1, UInt8(username.count)] + username + [UInt8(password.count)] + password
  }

  private static func bytes(of host: ProxyTarget.Host) -> [UInt8] {
    switch host {
    case .address(.ipv4(let address)): [1] + address.bytes
    case .address(.ipv6(let address)): [4] + address.bytes
    case .name(let name): [3, UInt8(clamping: name.utf8.count)] + name.utf8
    }
  }

  var awaited: String {
    switch phase {
    case .start, .method: "the SOCKS 5 proxy's answer to the greeting"
    case .authentication: "the SOCKS 5 proxy's answer to the name and password"
    case .reply: "the SOCKS 5 proxy's answer to the request to connect"
    }
  }

  mutating func next(_ arrived: [UInt8], isAtEnd: Bool) throws(SocketError) -> PreambleStep {
    switch phase {
    case .start:
      phase = .method
      return .send(authentication == nil ? [5, 1, 0] : [5, 2, 0, 2], taking: 0)
    case .method: return try method(arrived)
    case .authentication:
      guard arrived.count >= 2 else { return .wait }
      if arrived[0] != 1 { throw failure("version \(arrived[0]) of the answer is unknown") }
      if arrived[1] != 0 { throw notAdmitted("the proxy refused the name and password") }
      phase = .reply
      return .send(request, taking: 2)
    case .reply: return try reply(arrived)
    }
  }

  private mutating func method(_ arrived: [UInt8]) throws(SocketError) -> PreambleStep {
    if let version = arrived.first, version != 5 {
      throw failure("this is not a SOCKS 5 proxy: its answer begins with \(version)")
    }
    guard arrived.count >= 2 else { return .wait }
    switch (arrived[1], authentication) {
    case (0, _):
      phase = .reply
      return .send(request, taking: 2)
    case (2, let authentication?):
      phase = .authentication
      return .send(authentication, taking: 2)
    case (255, nil): throw notAdmitted("the proxy requires a name and a password, or a method that is not supported")
    case (255, _): throw notAdmitted("the proxy accepts neither no authentication nor a name and a password")
    case (let method, _): throw failure("the proxy chose method \(method), which was not offered")
    }
  }

  private func reply(_ arrived: [UInt8]) throws(SocketError) -> PreambleStep {
    if let version = arrived.first, version != 5 { throw failure("version \(version) of the answer is unknown") }
    guard arrived.count >= 2 else { return .wait }
    if arrived[1] != 0 {
      throw SocketError(
        .proxyRefused, operation: "connect",
        detail: "the SOCKS 5 proxy could not connect: \(Self.text(ofReply: arrived[1]))")
    }
    guard arrived.count >= 5 else { return .wait }
    let length: Int
    switch arrived[3] {
    case 1: length = 4
    case 3: length = 1 + Int(arrived[4])
    case 4: length = 16
    case let type: throw failure("the type \(type) of the address is unknown")
    }
    return arrived.count >= 6 + length ? .done(taking: 6 + length) : .wait
  }

  /// RFC 1928, section 6.
  private static func text(ofReply code: UInt8) -> String {
    switch code {
    case 1: "general failure"
    case 2: "its rules do not allow it"
    case 3: "the network is unreachable"
    case 4: "the host is unreachable"
    case 5: "the connection was refused"
    case 6: "the time to live expired"
    case 7: "it does not support the command"
    case 8: "it does not support this type of address"
    default: "reason \(code)"
    }
  }

  private func notAdmitted(_ reason: String) -> SocketError {
    SocketError(.proxyAuthenticationFailed, operation: "connect", detail: reason)
  }
}
