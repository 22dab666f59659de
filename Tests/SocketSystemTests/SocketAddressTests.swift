import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.pure)) struct SocketAddressTests {
  static let texts = [
    "0.0.0.0:0", "1.2.3.4:80", "255.255.255.255:65535", "[::]:0", "[::1]:80", "[2001:db8::1]:443", "[fe80::1%lo]:22",
    "[fe80::1%4294967295]:22", "[::ffff:1.2.3.4]:80", "unix:", "unix:/run/a b.sock", "unix:relative", "unix:./@odd",
    "unix:@name", "unix:@", "unix:@with/slash:80", "unix:/tmp/ü-日本.sock", "unix:[::1]:80",
  ]

  @Test(arguments: texts)
  func `The text of an address is read and printed unchanged`(text: String) throws {
    let address = try SocketAddress(parsing: text)
    #expect(address.description == text)
    #expect(SocketAddress(text) == address)
  }

  @Test func `The parts are what was written`() {
    #expect(SocketAddress("1.2.3.4:80") == .ipv4(IPv4Address(1, 2, 3, 4), port: 80))
    #expect(SocketAddress("[::1]:00443") == .ipv6(.loopback, port: 443))
    #expect(SocketAddress("unix:@a") == UnixPath("@a").map { .unix($0) })
    #expect(SocketAddress("[::1%lo]:80") == .ipv6(IPv6Address("::1%lo") ?? .any, port: 80))
  }

  @Test(
    arguments: [
      ("", .socketAddress, #""" is not a socket address: the port is missing; write "192.0.2.1:80" or "unix:/path""#),
      (
        "1.2.3.4", .socketAddress,
        #""1.2.3.4" is not a socket address: the port is missing; write "192.0.2.1:80" or "unix:/path""#
      ),
      (
        "::1", .socketAddress,
        #""::1" is not a socket address: an IPv6 address must stand in brackets, as in "[::1]:80""#
      ),
      ("[::1:80", .socketAddress, #""[::1:80" is not a socket address: the closing "]" is missing"#),
      ("[::1]", .socketAddress, #""[::1]" is not a socket address: a colon and a port must follow the "]""#),
      ("[::1]80", .socketAddress, #""[::1]80" is not a socket address: a colon and a port must follow the "]""#),
      ("1.2.3:80", .ipv4Address, #""1.2.3" is not an IPv4 address: it has 3 parts where 4 are needed"#),
      ("host:80", .ipv4Address, #""host" is not an IPv4 address: it has 1 part where 4 are needed"#),
      (":80", .ipv4Address, #""" is not an IPv4 address: it is empty"#),
      (
        "[1.2.3.4]:80", .ipv6Address,
        #""1.2.3.4" is not an IPv6 address: it has 2 groups where 8, or a "::", are needed"#
      ),
      ("[]:80", .ipv6Address, #""" is not an IPv6 address: it is empty"#),
      (
        "[fe80::1%nix]:80", .unknownInterface,
        #""fe80::1%nix" is not an address on this machine: there is no network interface called "nix""#
      ),
      ("1.2.3.4:", .port, #""" is not a port: it must be a number from 0 to 65535"#),
      ("1.2.3.4:65536", .port, #""65536" is not a port: it must be a number from 0 to 65535"#),
      ("1.2.3.4:+80", .port, #""+80" is not a port: it must be a number from 0 to 65535"#),
      ("1.2.3.4:-1", .port, #""-1" is not a port: it must be a number from 0 to 65535"#),
      ("1.2.3.4:8 0", .port, #""8 0" is not a port: it must be a number from 0 to 65535"#),
      ("[::1]:http", .port, #""http" is not a port: it must be a number from 0 to 65535"#),
      ("unix:/a\0b", .unixPath, #""/a\0b" is not the path of a unix socket: it has a NUL character in it"#),
    ] as [(String, AddressError.Reason, String)])
  func `Anything else is refused with a sentence that says why`(
    text: String, reason: AddressError.Reason, sentence: String
  ) {
    let error = #expect(throws: AddressError.self) { try SocketAddress(parsing: text) }
    #expect(error?.reason == reason)
    #expect(error?.description == sentence)
    #expect(SocketAddress(text) == nil)
  }

  @Test func `An address knows its family, its port and the kind of its IP address`() throws {
    let ipv4 = try SocketAddress(parsing: "127.0.0.1:80")
    #expect(ipv4.isIPv4 && !ipv4.isIPv6 && !ipv4.isUnix && ipv4.isLoopback && ipv4.port == 80)
    #expect(ipv4.family == AF_INET)
    let ipv6 = try SocketAddress(parsing: "[ff02::1]:81")
    #expect(!ipv6.isIPv4 && ipv6.isIPv6 && !ipv6.isUnix && ipv6.isMulticast && !ipv6.isLoopback && ipv6.port == 81)
    #expect(ipv6.family == AF_INET6)
    let unix = try SocketAddress(parsing: "unix:/a")
    #expect(!unix.isIPv4 && !unix.isIPv6 && unix.isUnix && unix.port == nil && unix.family == AF_UNIX)
    #expect(!unix.isLoopback && !unix.isMulticast && !unix.isUnspecified)
    #expect(SocketAddress("[::]:0")?.isUnspecified == true)
    #expect(SocketAddress("[::ffff:127.0.0.1]:1")?.isLoopback == true)
  }

  @Test(arguments: [
    ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"), ("[::1]:80", "[::1]:80"), ("192.0.2.1:80", "192.0.2.1:80"),
    ("unix:/a", "unix:/a"),
  ])
  func `An IPv4-mapped address is unmapped, any other stays`(text: String, unmapped: String) throws {
    #expect(try SocketAddress(parsing: text).unmapped.description == unmapped)
  }

  @Test(arguments: [("1.2.3.4:80", "1.2.3.4:9"), ("[::1]:80", "[::1]:9"), ("unix:/a", "unix:/a")])
  func `The port can be exchanged`(text: String, expected: String) throws {
    #expect(try SocketAddress(parsing: text).with(port: 9).description == expected)
  }

  @Test func `An address is small, for every connection stores two`() {
    #expect(MemoryLayout<SocketAddress>.size <= 24)
    #expect(MemoryLayout<SocketAddress?>.size <= 24)
  }
}

@Suite struct UnixPathTests {
  @Test(arguments: ["/" + String(repeating: "a", count: 106), "@" + String(repeating: "a", count: 107)])
  func `A name may have 107 bytes and no more`(longest: String) throws {
    #expect(try UnixPath(parsing: longest).description == longest)
    let error = #expect(throws: AddressError.self) { try UnixPath(parsing: longest + "a") }
    #expect(error?.reason == .unixPath)
    #expect(error?.description.hasSuffix("it has 108 bytes, where the kernel takes 107 at the most") == true)
  }

  @Test func `Bytes are counted, not characters`() {
    #expect(UnixPath(String(repeating: "ü", count: 53)) != nil)
    #expect(UnixPath(String(repeating: "ü", count: 54)) == nil)
  }

  @Test(arguments: ["/a\0b", "@\0", "\0name"])
  func `A NUL is refused, which would end the name in the kernel or make another name of it`(text: String) {
    #expect(throws: AddressError.self) { try UnixPath(parsing: text) }
  }

  @Test func `A name says of which kind it is`() throws {
    let path = try UnixPath(parsing: "/a@b")
    #expect(!path.isAbstract && !path.isUnnamed)
    let abstract = try UnixPath(parsing: "@b")
    #expect(abstract.isAbstract && !abstract.isUnnamed)
    let unnamed = try UnixPath(parsing: "")
    #expect(!unnamed.isAbstract && unnamed.isUnnamed)
  }

  @Test func `Names are equal if their bytes are, for the kernel knows no normalization`() {
    #expect(UnixPath("/\u{e9}") != UnixPath("/e\u{301}"))
    #expect(Set([UnixPath("/\u{e9}"), UnixPath("/e\u{301}"), UnixPath("/\u{e9}")]).count == 2)
  }
}

@Suite struct KernelAddressTests {
  /// The bytes of the kernel's form, without the padding.
  private func bytes(_ address: SocketAddress) -> [UInt8] {
    // SAFETY: the pointer is good for the length inside the closure.
    unsafe address.withKernelAddress { pointer, length in
      unsafe Array(UnsafeRawBufferPointer(start: pointer, count: Int(length)))
    }
  }

  /// The address that the kernel's form contains, as if the kernel had filled it in.
  private func address(_ bytes: [UInt8], length: Int? = nil) -> SocketAddress? {
    var storage = sockaddr_storage()
    unsafe withUnsafeMutableBytes(of: &storage) { unsafe $0.copyBytes(from: bytes) }
    // SAFETY: the storage is initialized and lives until the closure returns.
    return unsafe withUnsafePointer(to: storage) {
      unsafe SocketAddress(storage: $0, length: socklen_t(length ?? bytes.count))
    }
  }

  private func family(_ number: Int32) -> [UInt8] {
    unsafe withUnsafeBytes(of: sa_family_t(number)) { unsafe Array($0) }
  }

  @Test func `The bytes are those of ip(7), ipv6(7) and unix(7)`() throws {
    let ipv4: [UInt8] = family(AF_INET) + [1, 2, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]
    #expect(bytes(try SocketAddress(parsing: "1.2.3.4:258")) == ipv4)
    let ipv6 = bytes(try SocketAddress(parsing: "[102:304:506:708:90a:b0c:d0e:f10%16909060]:258"))
    let beginning: [UInt8] = family(AF_INET6) + [1, 2, 0, 0, 0, 0]
    #expect(Array(ipv6[..<8]) == beginning)
    #expect(Array(ipv6[8..<24]) == Array(1...16))
    #expect(ipv6[24...].reduce(0, +) == 10 && ipv6.count == 28)
    #expect(bytes(try SocketAddress(parsing: "unix:/a")) == family(AF_UNIX) + Array("/a\0".utf8))
    #expect(bytes(try SocketAddress(parsing: "unix:@a")) == family(AF_UNIX) + Array("\0a".utf8))
    #expect(bytes(try SocketAddress(parsing: "unix:")) == family(AF_UNIX))
  }

  @Test(arguments: SocketAddressTests.texts)
  func `An address comes back from its kernel form`(text: String) throws {
    let original = try SocketAddress(parsing: text)
    #expect(address(bytes(original)) == original)
  }

  @Test(arguments: [UInt64.random(in: 0 ... .max), 5])
  func `Random addresses come back from their kernel form`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    for _ in 0..<2000 {
      guard var ipv6 = random.ipv6Address() else { return }
      ipv6.scopeID = Bool.random(using: &random) ? random.next() : 0
      let ipv4 = IPv4Address(rawValue: random.next())
      let port: UInt16 = random.next()
      for original in [SocketAddress.ipv4(ipv4, port: port), .ipv6(ipv6, port: port)] {
        guard address(bytes(original)) == original else {
          Issue.record("\(original), seed \(seed)")
          return
        }
      }
    }
  }

  @Test func `A truncated form, no form and an unknown family are no address`() throws {
    for text in ["1.2.3.4:80", "[::1]:80"] {
      let whole = bytes(try SocketAddress(parsing: text))
      for count in 0..<whole.count { #expect(address(Array(whole[..<count])) == nil, "\(count) bytes of \(text)") }
      #expect(address(whole, length: 10_000)?.description == text)
    }
    #expect(address(family(AF_PACKET) + [UInt8](repeating: 0, count: 18)) == nil)
    #expect(address(family(AF_UNSPEC) + [UInt8](repeating: 0, count: 14)) == nil)
    // SAFETY: no pointer, nothing is read.
    #expect(unsafe SocketAddress(copying: nil, length: 16) == nil)
  }

  @Test func `Names of unix sockets that other programs chose do not trap and reach no other socket`() throws {
    let unix = family(AF_UNIX)
    let full = [UInt8](repeating: UInt8(ascii: "a"), count: 108)
    let unterminated = try #require(address(unix + full))
    #expect(unterminated.description == "unix:" + String(repeating: "a", count: 108))
    #expect(bytes(unterminated) == unix + full)
    // As getsockname(2) returns a path that fills sun_path: with one NUL behind it.
    #expect(address(unix + full + [0]) == unterminated)

    let padded = unix + [0, UInt8(ascii: "x"), 0, 0]
    #expect(address(padded).map(bytes) == padded)
    #expect(address(padded) != SocketAddress("unix:@x"))

    #expect(address(unix + Array("@x\0".utf8))?.description == "unix:./@x")
    #expect(address(unix + [0xff, 0])?.description == "unix:\u{fffd}")
  }

  @Test func `A name that is not UTF-8 leads back to exactly its bytes`() throws {
    let unix = family(AF_UNIX)
    let names: [[UInt8]] = [
      [0, 0xff], [0, 0xfe], [0, 0xc3], [0, 0xed, 0xa0, 0x80], [0] + [UInt8](repeating: 0xff, count: 107),
      Array("/tmp/".utf8) + [0xff], Array("/tmp/".utf8) + [0xfe], [0xff], Array("@x".utf8) + [0xff],
      [UInt8](repeating: 0xff, count: 108),
    ]
    let addresses = try names.map { try #require(address(unix + $0)) }
    #expect(Set(addresses).count == names.count)
    for (name, address) in zip(names, addresses) {
      let isPath = name[0] != 0 && name.count < 108
      #expect(bytes(address) == unix + name + (isPath ? [0] : []))
      #expect(self.address(bytes(address)) == address)
      guard case .unix(let path) = address else { Issue.record("\(address)"); return }
      #expect(path.bytes == name && path.isAbstract == (name[0] == 0))
      if name.count < 108 || path.isAbstract { #expect(try UnixPath(bytes: name) == path) }
    }
    #expect("\(addresses[0])" == "unix:@\u{fffd}" && "\(addresses[1])" == "unix:@\u{fffd}")
    for refused in [[47, 0], [UInt8](repeating: 97, count: 108), [0] + [UInt8](repeating: 97, count: 108)] as [[UInt8]]
    {
      #expect(throws: AddressError.self) { try UnixPath(bytes: refused) }
    }
  }

  @Test(arguments: [
    "127.0.0.1:0", "[::1]:0", "unix:@name-\(getpid())",
    "unix:@" + "\(getpid())\(String(repeating: "z", count: 107))".prefix(107),
  ])
  func `The kernel binds to an address and tells the same one`(text: String) throws {
    let wanted = try SocketAddress(parsing: text)
    let socket = socket(wanted.family, Int32(SOCK_STREAM.rawValue), 0)
    try #require(socket >= 0)
    defer { close(socket) }
    if unsafe wanted.withKernelAddress({ unsafe bind(socket, $0, $1) }) != 0 {
      // A machine without IPv6 is no failure of ours; anything else is.
      try #require(wanted.isIPv6 && errno == EADDRNOTAVAIL, "bind: errno \(errno)")
      return
    }
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: the storage is as large as the length says and lives until the closures return.
    let bound = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = unsafe getsockname(socket, $0, &length) }
      return unsafe SocketAddress(storage: pointer, length: length)
    }
    #expect(bound?.with(port: 0) == wanted)
    #expect(wanted.isUnix || bound?.port != 0)
  }

  @Test func `What the closure throws comes out with its type`() throws {
    struct Stop: Error {}
    let address = try SocketAddress(parsing: "1.2.3.4:80")
    func call() throws(Stop) -> Int {
      try unsafe address.withKernelAddress { (_, _) throws(Stop) -> Int in throw Stop() }
    }
    #expect(throws: Stop.self) { try call() }
  }
}

@Suite struct NetworkInterfaceTests {
  @Test func `The loopback interface is listed once, with its index and its addresses`() throws {
    let loopbacks = try NetworkInterface.list().filter { $0.name == "lo" }
    let loopback = try #require(loopbacks.first)
    #expect(loopbacks.count == 1)
    // SAFETY: the compiler lends a NUL-terminated copy of the text for the call.
    let index = unsafe if_nametoindex("lo")
    #expect(loopback.index == index)
    #expect(loopback.addresses.contains(NetworkInterface.Address(.ipv4(.loopback), prefixLength: 8)))
    #expect(loopback.isLoopback && loopback.isUp && loopback.isRunning && !loopback.isPointToPoint)
  }

  @Test(
    arguments: [
      (0x1, .up), (0x8, .loopback), (0x10, .pointToPoint), (0x40, .running), (0x1000, .multicast),
      // IFF_BROADCAST and IFF_PROMISC.
      (0x102, []), (0x1043, [.up, .running, .multicast]),
    ] as [(Int, NetworkInterface.Flags)])
  func `The flags of the kernel that programs need are kept`(kernel: Int, flags: NetworkInterface.Flags) {
    #expect(NetworkInterface.Flags(kernel: kernel) == flags)
  }

  @Test(
    arguments: [
      ("192.0.2.77", 24, "192.0.2.0/24"), ("192.0.2.77", 32, "192.0.2.77/32"), ("10.1.2.3", 0, "0.0.0.0/0"),
      ("2001:db8::1:2", 64, "2001:db8::/64"), ("fe80::1%2", 10, "fe80::/10"), ("::1", 128, "::1/128"),
    ])
  func `The network of an address has the bits of its prefix`(address: String, length: Int, network: String) throws {
    let address = NetworkInterface.Address(try IPAddress(parsing: address), prefixLength: length)
    #expect(address.network.description == network)
    #expect(address.network.contains(address.address))
    #expect(try IPNetwork(parsing: network) == address.network)
  }

  @Test func `An interface is described in one line`() throws {
    let address = NetworkInterface.Address(try IPAddress(parsing: "192.0.2.1"), prefixLength: 24)
    let interface = NetworkInterface(
      name: "tun0", index: 7, flags: [.up, .running, .loopback, .pointToPoint, .multicast], addresses: [address])
    #expect("\(interface)" == "tun0 (7) up running loopback point-to-point multicast 192.0.2.1/24")
    #expect("\(NetworkInterface(name: "eth0", index: 2, flags: [], addresses: []))" == "eth0 (2)")
  }

  @Test func `Every interface has an index of its own`() throws {
    let interfaces = try NetworkInterface.list()
    #expect(Set(interfaces.map(\.index)).count == interfaces.count)
    #expect(interfaces.allSatisfy { $0.index != 0 && !$0.name.isEmpty })
    #expect(interfaces.count { $0.isLoopback } == 1)
  }
}
