import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SourceAddressesTests {
  private static func parse(_ text: String) -> SocketAddress {
    if let ipv4 = IPv4Address(text) { return .ipv4(ipv4, port: 0) }
    guard let slash = text.firstIndex(of: "/"), var address = IPv6Address(String(text[..<slash])) else {
      return .ipv6(IPv6Address(text) ?? .any, port: 0)
    }
    // A scope that no interface need have.
    address.scopeID = UInt32(text[text.index(after: slash)...]) ?? 0
    return .ipv6(address, port: 0)
  }

  /// The candidates, the destination, and which of the candidates it is.
  @Test(arguments: [
    (["192.0.2.1"], "198.51.100.7", "192.0.2.1"),
    (["2001:db8::1", "192.0.2.1"], "198.51.100.7", "192.0.2.1"),
    (["192.0.2.1", "2001:db8::1"], "2001:db8:1::7", "2001:db8::1"),
    (["fe80::1/2", "2001:db8::1"], "2001:db8:1::7", "2001:db8::1"),
    (["2001:db8::1", "fe80::1/2"], "fe80::7/2", "fe80::1/2"),
    (["fe80::1/2", "fe80::1/3"], "fe80::7/3", "fe80::1/3"),
    (["fe80::1/2", "2001:db8::1"], "fe80::7", "fe80::1/2"),
    (["192.0.2.1", "127.0.0.1"], "127.0.0.1", "127.0.0.1"),
    (["127.0.0.1", "192.0.2.1"], "198.51.100.7", "192.0.2.1"),
    (["::", "0.0.0.0"], "127.0.0.1", "0.0.0.0"),
  ])
  func `The source has the destination's family, and rather its scope`(
    candidates: [String], destination: String, expected: String
  ) throws {
    let sources = SourceAddresses(.host("x", port: 0), candidates.map(Self.parse))
    #expect(try sources.source(for: Self.parse(destination)) == Self.parse(expected))
  }

  @Test(arguments: [
    ([], "192.0.2.7"), (["192.0.2.1"], "2001:db8::7"), (["2001:db8::1"], "192.0.2.7"), (["fe80::1/2"], "fe80::7/3"),
  ])
  func `If no source fits, the error names the source that was asked for`(candidates: [String], destination: String) {
    let sources = SourceAddresses(.host("eth7", port: 0), candidates.map(Self.parse))
    expectErrorNow(.addressNotAvailable, saying: "eth7") { _ = try sources.source(for: Self.parse(destination)) }
  }

  @Test func `A link-local address takes the scope of the source, or a device, or is refused`() throws {
    let bare = Self.parse("fe80::7")
    #expect(try bare.scoped(by: Self.parse("fe80::1/2"), isOnDevice: false, for: "send") == Self.parse("fe80::7/2"))
    #expect(try bare.scoped(by: nil, isOnDevice: true, for: "send") == bare)
    #expect(try Self.parse("fe80::7/5").scoped(by: nil, isOnDevice: false, for: "send") == Self.parse("fe80::7/5"))
    for address in ["2001:db8::7", "169.254.1.1", "127.0.0.1"] {
      #expect(try Self.parse(address).scoped(by: nil, isOnDevice: false, for: "send") == Self.parse(address))
    }
    let error = #expect(throws: SocketError.self) { try bare.scoped(by: nil, isOnDevice: false, for: "send") }
    #expect(error?.code == .scopeMissing && error?.address == bare && error?.operation == "send")
  }

  @Test func `Given addresses are filtered and sorted as preferred`() throws {
    let both = [Self.parse("::1"), Self.parse("127.0.0.1"), Self.parse("::2")]
    let (four, six) = ([both[1]], [both[0], both[2]])
    #expect(try AddressPreference.any.sorted(both, for: "bind") == both)
    #expect(try AddressPreference.preferIPv4.sorted(both, for: "bind") == four + six)
    #expect(try AddressPreference.preferIPv6.sorted(four + six, for: "bind") == six + four)
    #expect(try AddressPreference.ipv4Only.sorted(both, for: "bind") == four)
    #expect(try AddressPreference.ipv6Only.sorted(both, for: "bind") == six)
    let path = try SocketAddress.unix(UnixPath(parsing: "@x"))
    #expect(try AddressPreference.ipv4Only.sorted([path], for: "bind") == [path])
    let error = #expect(throws: SocketError.self) { try AddressPreference.ipv4Only.sorted(six, for: "bind") }
    #expect(error?.code == .invalidArgument && error?.operation == "bind")
  }
}
