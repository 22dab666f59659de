import Glibc
import TestSupport
import Testing

@testable import SocketSystem

@Suite struct SocketOptionTests {
  /// An option with values to set, and what getting it brings then.
  struct Case: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let check: @Sendable (BorrowedDescriptor) throws -> Void

    init<Value: Equatable>(_ option: SocketOption<Value>, _ values: [Value], reads: [Value]? = nil) {
      testDescription = option.name
      check = { socket in
        for (value, expected) in zip(values, reads ?? values) {
          try option.set(value, on: socket)
          #expect(try option.value(on: socket) == expected)
        }
      }
    }
  }

  static let cases: [Case] = [
    Case(.noDelay, [true, false]), Case(.keepAlive, [true, false]), Case(.reuseAddress, [true, false]),
    Case(.reusePort, [true, false]), Case(.quickAcknowledgement, [false, true]),
    Case(
      .keepAliveIdle, [.seconds(1), .milliseconds(1001), .seconds(32_767)], reads: [1, 2, 32_767].map { .seconds($0) }),
    Case(.keepAliveInterval, [.nanoseconds(1), .seconds(9)], reads: [.seconds(1), .seconds(9)]),
    Case(.keepAliveCount, [1, 127]),
    Case(.userTimeout, [.microseconds(1), .seconds(30), .zero], reads: [.milliseconds(1), .seconds(30), .zero]),
    Case(.linger, [.zero, nil]),
    // The kernel doubles them.
    Case(.sendBufferSize, [16_384], reads: [32_768]), Case(.receiveBufferSize, [16_384], reads: [32_768]),
    Case(.notSentLowWater, [4096]), Case(.timeToLive, [1, 64, 255]), Case(.priority, [0, 6]),
    Case(.typeOfService, [.expeditedForwarding, .lowerEffort, .bestEffort]),
    Case(.congestionControl, ["reno"]),
    Case(SocketOption<Int32>(level: SOL_SOCKET, name: SO_KEEPALIVE), [1, 0]),
    Case(SocketOption<[UInt8]>(level: SOL_SOCKET, name: SO_LINGER, maximumLength: 8), [[1, 0, 0, 0, 0, 0, 0, 0]]),
  ]

  @Test(arguments: cases, [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0)])
  func `A value that was set is read`(option: Case, address: SocketAddress) throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: address.family)
    try option.check(descriptor.socket)
  }

  @Test func `A socket is bound to an interface`() throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: AF_INET)
    #expect(try SocketOption.bindToDevice.value(on: descriptor.socket) == nil)
    try SocketOption.bindToDevice.set("lo", on: descriptor.socket)
    #expect(try SocketOption.bindToDevice.value(on: descriptor.socket) == "lo")
  }

  @Test(.runs(unless: getuid() == 0 ? nil : "only root may take a socket off its interface"))
  func `A socket is taken off its interface again`() throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: AF_INET)
    try SocketOption.bindToDevice.set("lo", on: descriptor.socket)
    try SocketOption.bindToDevice.set(nil, on: descriptor.socket)
    #expect(try SocketOption.bindToDevice.value(on: descriptor.socket) == nil)
  }

  @Test(arguments: [
    (Duration.zero, "0.0 seconds is not between 1 and 32767 s"),
    (.seconds(-1), "-1.0 seconds is not"), (.milliseconds(32_767_001), "32767.001 seconds is not"),
    (.seconds(Int64.max) * 8, "seconds is not between"),
  ])
  func `A time that the kernel cannot count is refused in words`(time: Duration, text: String) throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: AF_INET)
    #expect {
      try SocketOption.keepAliveIdle.set(time, on: descriptor.socket)
    } throws: { error in
      if case .outOfRange(let reason) = error as? SocketOptionError { reason.contains(text) } else { false }
    }
  }

  @Test(arguments: [0, 128, -1, Int.max, Int(Int32.max) + 1])
  func `A number out of range is refused`(count: Int) throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: AF_INET)
    #expect {
      try SocketOption.keepAliveCount.set(count, on: descriptor.socket)
    } throws: { error in
      if case .outOfRange("\(count) is not between 1 and 127") = error as? SocketOptionError { true } else { false }
    }
  }

  @Test(arguments: ["", "sixteen-bytes-xx", "l\0o"])
  func `An invalid name is refused`(name: String) throws {
    let descriptor = try OwnedDescriptor.streamSocket(family: AF_INET)
    #expect(throws: SocketOptionError.self) { try SocketOption.bindToDevice.set(name, on: descriptor.socket) }
    #expect(throws: SocketOptionError.self) { try SocketOption.congestionControl.set(name, on: descriptor.socket) }
  }

  @Test func `An IPv6 socket for both families carries the option of both`() throws {
    let both = try OwnedDescriptor.streamSocket(family: AF_INET6)
    try both.socket.set(.ipv6Only, to: 0)
    try SocketOption.typeOfService.set(.expeditedForwarding, on: both.socket)
    #expect(try both.socket.get(RawOption(level: Int32(IPPROTO_IP), name: IP_TOS)) == 184)
    #expect(try both.socket.get(RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_TCLASS)) == 184)

    let alone = try OwnedDescriptor.streamSocket(family: AF_INET6)
    try alone.socket.set(.ipv6Only, to: 1)
    try SocketOption.timeToLive.set(9, on: alone.socket)
    #expect(try alone.socket.get(RawOption(level: Int32(IPPROTO_IP), name: IP_TTL)) != 9)
    #expect(try SocketOption.timeToLive.value(on: alone.socket) == 9)
  }

  @Test func `A unix socket has no time to live`() throws {
    let (one, other) = try RawSocket.unixPair()
    defer { other.close() }
    #expect {
      try SocketOption.timeToLive.set(9, on: BorrowedDescriptor(one.number))
    } throws: { error in
      if case .system(let failure) = error as? SocketOptionError { failure.errno == EOPNOTSUPP } else { false }
    }
  }

  @Test func `A traffic class is a code point and two bits`() {
    #expect(TrafficClass.expeditedForwarding.rawValue == 184)
    #expect(TrafficClass(rawValue: 187).codePoint == 46 && TrafficClass(rawValue: 187).congestion == 3)
    #expect("\(TrafficClass(rawValue: 187))" == "DSCP 46, ECN 3")
    #expect("\(TrafficClass(codePoint: 255))" == "DSCP 63")
  }
}
