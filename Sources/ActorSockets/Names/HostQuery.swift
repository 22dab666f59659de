/// Names are compared byte by byte.
struct HostQuery: Hashable, Sendable {
  /// The domain that a name belongs to, for sharing threads: its last two parts, in lower case. Names of one domain usually depend on the
  /// same servers.
  typealias Domain = [UInt8]

  private let bytes: [UInt8]
  let family: AddressFamily

  init(name: String, family: AddressFamily) {
    bytes = Array(name.utf8)
    self.family = family
  }

  var name: String { String(decoding: bytes, as: UTF8.self) }

  var domain: Domain {
    let key = name.hostNameBytes
    let dots = key.indices.filter { key[$0] == UInt8(ascii: ".") }
    return dots.count < 2 ? key : Array(key[(dots[dots.count - 2] + 1)...])
  }
}
