import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct HostsFileTests {
  private static let hosts = """
    # a comment  commented.test
    127.0.0.1 localhost
    192.0.2.1\tdb.internal  db DB.alias # old.internal
      2001:db8::1 db.internal
    192.0.2.2 db.internal
    192.0.2.1 db.internal db.internal
    127.1 short.test
    not-an-address wrong.test
    192.0.2.9 late.test\r
    192.0.2.8#cut.test

    192.0.2.10
    192.0.2.11 caf\u{e9}.test
    192.0.2.7 last.test
    """

  @Test(arguments: [
    ("db.internal", ["192.0.2.1:0", "[2001:db8::1]:0", "192.0.2.2:0"]),
    ("DB.INTERNAL.", ["192.0.2.1:0", "[2001:db8::1]:0", "192.0.2.2:0"]), ("db", ["192.0.2.1:0"]),
    ("db.alias", ["192.0.2.1:0"]), ("late.test", ["192.0.2.9:0"]), ("last.test", ["192.0.2.7:0"]), ("old.internal", []),
    ("commented.test", []), ("short.test", []), ("wrong.test", []), ("cut.test", []), ("192.0.2.1", []),
    ("internal", []), ("cafe\u{301}.test", []), ("caf\u{e9}.test", ["192.0.2.11:0"]), ("nobody.test", []),
  ])
  func `A name has the addresses of the lines that have it`(name: String, addresses: [String]) {
    let found = HostsFile.addresses(of: name.hostNameBytes, in: Array(Self.hosts.utf8))
    #expect(found.map(\.description) == addresses)
  }

  @Test(arguments: [
    ("", true), ("hosts: files dns", true), ("passwd: dns\nhosts:\tfiles", true),
    ("  hosts: files [NOTFOUND=return] dns", true), ("hosts: files mdns4_minimal [NOTFOUND=return] dns", true),
    ("hosts: dns files", false), ("hosts: resolve files", false), ("hosts:", false),
    ("# hosts: dns\nhosts: files", true), ("hosts: #files", false), ("hosts: files [success=merge] dns", false),
    ("hosts: FILES", false), ("networks: dns", true),
  ])
  func `The file is asked by itself only if the system asks it first`(configuration: String, isFirst: Bool) {
    #expect(HostsFile.comesFirst(in: Array(configuration.utf8)) == isFirst)
  }

  @Test func `Garbage of any kind is read, and never traps`() {
    var random = SeededRandom(seed: 1)
    let parts: [[UInt8]] = [
      Array("192.0.2.1".utf8), Array("::1".utf8), Array(" ".utf8), [9], [10], [13], [0], Array("#".utf8),
      Array("a".utf8), [0xff], Array("hosts:".utf8), Array("files".utf8), [0xcc, 0x81],
    ]
    for _ in 0..<3000 {
      let text = (0..<Int.random(in: 0...12, using: &random)).flatMap { _ in parts.randomElement(using: &random) ?? [] }
      let found = HostsFile.addresses(of: Array("a".utf8), in: text)
      #expect(found.isEmpty || text.contains(UInt8(ascii: "a")))
      _ = HostsFile.comesFirst(in: text)
    }
  }

  @Test func `A file that is missing, or is no regular file, has no names`() throws {
    let folder = try Folder()
    for path in ["/nonexistent/hosts", "/dev/zero", folder.url.path] {
      #expect(HostsFile(path: path, switchPath: path).addresses(of: "localhost") == nil)
    }
  }
}
