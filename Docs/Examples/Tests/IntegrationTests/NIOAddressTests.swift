import ActorSockets
import ActorSocketsNIO
import Glibc
import NIOCore
import Testing

@Suite struct NIOAddressTests {
  private typealias Ours = ActorSockets.SocketAddress
  private typealias NIOs = NIOCore.SocketAddress

  @Test(arguments: [
    ("127.0.0.1:80", "127.0.0.1", 80), ("0.0.0.0:0", "0.0.0.0", 0), ("192.0.2.255:65535", "192.0.2.255", 65535),
    ("[::1]:80", "::1", 80), ("[2001:db8::1]:443", "2001:db8::1", 443), ("[::ffff:192.0.2.1]:1", "::ffff:192.0.2.1", 1),
  ])
  func `IP addresses become those that NIO reads from text, and back`(text: String, ip: String, port: Int) throws {
    let ours = try Ours(parsing: text)
    let nios = try NIOs(ours)
    #expect(try nios == NIOs(ipAddress: ip, port: port))
    #expect(nios.ipAddress == ip && nios.port == port)
    #expect(try Ours(nios) == ours)
    #expect(try Ours(NIOs(ipAddress: ip, port: port)) == ours)
  }

  @Test func `The scope of an IPv6 address is kept`() throws {
    let ours = try Ours(parsing: "[fe80::1%lo]:80")
    let nios = try NIOs(ours)
    #expect(try nios == NIOs(ipAddress: "fe80::1%lo", port: 80))
    guard case .v6(let address) = nios else { throw AddressMismatch() }
    #expect(address.address.sin6_scope_id != 0)
    #expect(try Ours(nios) == ours)
    #expect(try Ours(nios) != Ours(parsing: "[fe80::1]:80"))
  }

  @Test func `The flow label is dropped`() throws {
    guard case .v6(let address) = try NIOs(ipAddress: "::1", port: 1) else { throw AddressMismatch() }
    var kernel = address.address
    kernel.sin6_flowinfo = 7
    #expect(try Ours(NIOs(kernel, host: "localhost")) == Ours(parsing: "[::1]:1"))
  }

  @Test(arguments: ["/run/server.sock", "relative", "/tmp/ä.sock", "", "/" + String(repeating: "x", count: 102)])
  func `Paths of unix sockets are kept`(path: String) throws {
    let ours = Ours.unix(try UnixPath(parsing: path))
    let nios = try NIOs(ours)
    #expect(nios.pathname == path)
    #expect(try nios == NIOs(unixDomainSocketPath: path))
    #expect(try Ours(nios) == ours)
  }

  @Test func `The longest path that the kernel takes is kept, although NIO refuses it as text`() throws {
    let path = "/" + String(repeating: "x", count: 106)
    let nios = try NIOs(Ours.unix(try UnixPath(parsing: path)))
    #expect(nios.pathname == path)
    #expect(try Ours(nios) == Ours.unix(try UnixPath(parsing: path)))
    #expect(throws: SocketAddressError.self) { try NIOs(unixDomainSocketPath: path) }
  }

  @Test func `A file whose name begins with @ is no abstract name`() throws {
    let ours = try Ours(NIOs(unixDomainSocketPath: "@name"))
    #expect(ours == Ours.unix(try UnixPath(bytes: Array("@name".utf8))))
    #expect(ours.description == "unix:./@name")
  }

  @Test func `Abstract names are refused in both directions`() throws {
    let there = #expect(throws: AddressConversionError.self) { try NIOs(Ours(parsing: "unix:@name")) }
    #expect(there?.description.hasPrefix("@name is an abstract name") == true)
    let back = #expect(throws: AddressConversionError.self) { try Ours(NIOs(kernelName([0, 110, 97, 109, 101]))) }
    #expect(back?.description.hasPrefix("it is an abstract name") == true)
  }

  @Test func `A path that is not UTF-8 is kept, and one without an end is refused`() throws {
    let nios = NIOs(kernelName([47, 0xff]))
    #expect(try Ours(nios) == Ours.unix(UnixPath(bytes: [47, 0xff])))
    #expect(try NIOs(Ours(nios)) == nios)
    #expect(throws: AddressConversionError.self) { try Ours(NIOs(kernelName([UInt8](repeating: 47, count: 108)))) }
  }

  private func kernelName(_ bytes: [UInt8]) -> sockaddr_un {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // SAFETY: a pointer to a local variable, used within the call only. It has 108 bytes, which no test exceeds.
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    return address
  }
}

private struct AddressMismatch: Error {}
