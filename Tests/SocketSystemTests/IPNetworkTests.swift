import TestSupport
import Testing

@testable import SocketSystem

@Suite(.tags(.pure)) struct IPNetworkTests {
  @Test(arguments: [
    ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"), ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
    ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
    ("192.0.2.1/32", "::ffff:192.0.2.1", "192.0.2.0"), ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
    ("2001:db8:0:4::/62", "2001:db8:0:7::9", "2001:db8:0:8::"), ("2001:db8::100/120", "2001:db8::1ff", "2001:db8::200"),
    ("0.0.0.0/0", "203.0.113.9", "::1"), ("::/0", "2001:db8::1", "203.0.113.9"), ("fe80::/10", "fe80::1", "fec0::1"),
    ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
  ])
  func `A network contains the addresses that begin with its bits`(text: String, inside: String, outside: String) throws
  {
    let network = try IPNetwork(parsing: text)
    #expect(network.contains(try IPAddress(parsing: inside)))
    #expect(!network.contains(try IPAddress(parsing: outside)))
    #expect(try IPNetwork(parsing: "\(network)") == network)
  }

  @Test(arguments: [
    "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.1/8", "2001:db8::/129", "2001:db8::1/32",
    "::ffff:10.0.0.0/104",
    "10.0.0.0/8/8", "", "/8", "host/8", "10.0.0.0/ 8", "10.0.0.0/256", "fe80::1%lo", "fe80::%lo/10",
  ])
  func `Text that is not a network is refused`(text: String) {
    #expect(throws: AddressError.self) { try IPNetwork(parsing: text) }
    #expect(IPNetwork(text) == nil)
  }

  @Test func `Bits after the prefix are named with what was meant`() {
    #expect { try IPNetwork(parsing: "192.0.2.77/24") } throws: { "\($0)".contains("192.0.2.0/24") }
  }

  @Test func `The interface of an address does not matter`() throws {
    var address = try #require(IPv6Address("fe80::1"))
    address.scopeID = 7
    #expect(try IPNetwork(parsing: "fe80::/10").contains(.ipv6(address)))
    #expect(IPNetwork(.ipv6(address)).contains(.ipv6(address)))
    #expect(IPNetwork(IPAddress.ipv6(IPv6Address(mapped: .loopback))).description == "127.0.0.1/32")
  }
}
