import TestSupport

/// What a peer should not send.
enum Garbage: CaseIterable {
  case zeros, ones, random, text, http, empty, overlong, wrongVersion, unknownType, alertOfNoKind

  var bytes: [UInt8] {
    var random = SeededRandom(seed: 7)
    return switch self {
    case .zeros: [UInt8](repeating: 0, count: 600)
    case .ones: [UInt8](repeating: 0xff, count: 600)
    case .random: (0..<600).map { _ in UInt8.random(in: 0...255, using: &random) }
    case .text: Array("220 mail.example.org ESMTP\r\n".utf8)
    case .http: Array("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".utf8)
    case .empty: [22, 3, 3, 0, 0]
    case .overlong: [22, 3, 3, 0xff, 0xff] + [UInt8](repeating: 1, count: 20_000)
    case .wrongVersion: [22, 9, 9, 0, 4, 1, 0, 0, 0]
    case .unknownType: [99, 3, 3, 0, 1, 0]
    case .alertOfNoKind: [21, 3, 3, 0, 2, 9, 9]
    }
  }
}
