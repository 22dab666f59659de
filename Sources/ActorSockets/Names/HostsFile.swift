internal import SocketSystem

// The names in /etc/hosts need no network and no thread. So they are read here, and not by getaddrinfo(3), whose threads may all wait for a
// name server. The files are read at each look-up, as getaddrinfo does: so a change takes effect at once.

/// The files that say which names this machine knows by itself: hosts(5), and nsswitch.conf(5) for whether they come first.
final class HostsFile: Sendable {
  private let path: String
  private let switchPath: String

  init(path: String = "/etc/hosts", switchPath: String = "/etc/nsswitch.conf") {
    self.path = path
    self.switchPath = switchPath
  }

  /// Returns addresses of both families, in the order of the file; `nil` if the file does not have the name, or if the system asks another
  /// source first.
  func addresses(of name: String) -> [SocketAddress]? {
    guard let hosts = Self.read(path) else { return nil }
    let found = Self.addresses(of: name.hostNameBytes, in: hosts)
    if found.isEmpty || !Self.comesFirst(in: Self.read(switchPath) ?? []) { return nil }
    return found
  }

  private static func read(_ path: String) -> [UInt8]? {
    guard let file = try? OwnedDescriptor.openForReading(path), let size = try? file.fileSize() else { return nil }
    var bytes: [UInt8] = []
    while bytes.count < size, let more = try? file.read(from: bytes.count, atMost: size - bytes.count), !more.isEmpty {
      bytes += more
    }
    return bytes
  }

  // MARK: The formats

  /// The key is the name's `hostNameBytes`. A line that does not begin with an address is skipped. Returns each address once, with port 0.
  static func addresses(of key: [UInt8], in hosts: [UInt8]) -> [SocketAddress] {
    var found: [SocketAddress] = []
    for line in Lines(hosts) {
      var fields = Fields(hosts[line])
      guard let address = fields.next() else { continue }
      while let field = fields.next() {
        guard matches(field, key) else { continue }
        let text = String(decoding: address, as: UTF8.self)
        if let address = IPAddress(text)?.socketAddress(port: 0), !found.contains(address) { found.append(address) }
        break
      }
    }
    return found
  }

  /// Returns whether a text in the format of nsswitch.conf(5) lets hosts(5) come first, and lets its answer stand.
  static func comesFirst(in configuration: [UInt8]) -> Bool {
    for line in Lines(configuration) {
      var fields = Fields(configuration[line])
      guard let database = fields.next(), database.elementsEqual("hosts:".utf8) else { continue }
      guard let source = fields.next(), source.elementsEqual("files".utf8) else { return false }
      // Such as `[SUCCESS=merge]`, after which further sources are asked.
      let action = fields.next()?.map(\.lowercasedASCII) ?? []
      return !action.starts(with: "[success".utf8)
    }
    // The default of glibc.
    return true
  }

  private static func matches(_ field: ArraySlice<UInt8>, _ key: [UInt8]) -> Bool {
    // Most fields differ in length, so most are passed over without a copy.
    guard field.count == key.count || field.count == key.count + 1 else { return false }
    return String(decoding: field, as: UTF8.self).hostNameBytes == key
  }

  /// The lines are ranges without comments.
  private struct Lines: Sequence, IteratorProtocol {
    private let text: [UInt8]
    private var start = 0

    init(_ text: [UInt8]) { self.text = text }

    mutating func next() -> Range<Int>? {
      if start >= text.count { return nil }
      let end = text[start...].firstIndex(of: UInt8(ascii: "\n")) ?? text.count
      defer { start = end + 1 }
      return start..<(text[start..<end].firstIndex(of: UInt8(ascii: "#")) ?? end)
    }
  }

  private struct Fields {
    private var rest: ArraySlice<UInt8>

    init(_ line: ArraySlice<UInt8>) { rest = line }

    mutating func next() -> ArraySlice<UInt8>? {
      rest = rest.drop { $0 <= UInt8(ascii: " ") }
      let field = rest.prefix { $0 > UInt8(ascii: " ") }
      rest = rest[field.endIndex...]
      return field.isEmpty ? nil : field
    }
  }
}
