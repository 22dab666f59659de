import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct CapturedConversationTests {
  private static let ipv4 = (
    CapturedEnd(address: [127, 0, 0, 1], port: 40_000), CapturedEnd(address: [10, 0, 0, 9], port: 80)
  )
  private static let ipv6 = (
    CapturedEnd(address: IPv6Address.loopback.bytes, port: 40_000),
    CapturedEnd(address: [0xfe, 0x80] + [UInt8](repeating: 7, count: 14), port: 80)
  )

  private static func conversation(
    isIPv6: Bool = false, isAccepted: Bool = false, sequence: (UInt32, UInt32) = (1000, 5000)
  ) -> CapturedConversation {
    let (local, remote) = isIPv6 ? ipv6 : ipv4
    return CapturedConversation(local: local, remote: remote, isAccepted: isAccepted, sequence: sequence)
  }

  @Test(arguments: [false, true], [false, true])
  func `The side that connected opens the handshake`(isIPv6: Bool, isAccepted: Bool) throws {
    var conversation = Self.conversation(isIPv6: isIPv6, isAccepted: isAccepted)
    let packets = conversation.begin()
    let (client, server): (CapturedConversation.Side, CapturedConversation.Side) =
      isAccepted ? (.remote, .local) : (.local, .remote)
    #expect(packets.map(\.sender) == [client, server, client])
    let parsed = try packets.map { try ParsedPacket($0.bytes) }
    #expect(parsed.map(\.flags) == CaptureFile.handshake)
    let (clientSequence, serverSequence): (UInt32, UInt32) = isAccepted ? (5000, 1000) : (1000, 5000)
    #expect(parsed.map(\.sequence) == [clientSequence, serverSequence, clientSequence + 1])
    #expect(parsed.map(\.acknowledgement) == [0, clientSequence + 1, serverSequence + 1])
    let (local, remote) = isIPv6 ? Self.ipv6 : Self.ipv4
    #expect(parsed[0].source == (isAccepted ? remote : local).address)
    #expect(parsed[0].destinationPort == (isAccepted ? local : remote).port)
    #expect(conversation.begin().isEmpty)
  }

  @Test(arguments: [false, true])
  func `200,000 bytes become packets of at most 65,535 bytes, and the last one is pushed`(isIPv6: Bool) throws {
    var conversation = Self.conversation(isIPv6: isIPv6)
    _ = conversation.begin()
    let packets = try conversation.sent(pattern(200_000).span, by: .remote).map { try ParsedPacket($0.bytes) }
    #expect(packets.map(\.bytes.count).max() == 65_535)
    #expect(packets.flatMap(\.payload) == pattern(200_000))
    #expect(packets.map { $0.flags.contains(.push) } == [false, false, false, true])
    var next: UInt32 = 5001
    for packet in packets {
      #expect(packet.sequence == next && packet.acknowledgement == 1001)
      next += UInt32(packet.payload.count)
    }
    let answer = try conversation.sent(pattern(1).span, by: .local).map { try ParsedPacket($0.bytes) }
    #expect(answer.map(\.sequence) == [1001] && answer.map(\.acknowledgement) == [next])
  }

  @Test func `Sequence numbers begin again at zero after 2^32`() throws {
    var conversation = Self.conversation(sequence: (.max, .max - 70_000))
    _ = conversation.begin()
    let first = try ParsedPacket(try #require(conversation.sent(pattern(3).span, by: .local).first).bytes)
    #expect(first.sequence == 0)
    let block = pattern(65_000)
    var expected: UInt32 = .max - 69_999
    for _ in 0..<3 {
      let packet = try ParsedPacket(try #require(conversation.sent(block.span, by: .remote).first).bytes)
      #expect(packet.sequence == expected && packet.acknowledgement == 3)
      expected &+= 65_000
    }
    #expect(expected < 200_000)
    let end = try ParsedPacket(try #require(conversation.finished(by: .local).first).bytes)
    #expect(end.sequence == 3 && end.acknowledgement == expected)
  }

  @Test func `Each side finishes once, and sends nothing more`() throws {
    var conversation = Self.conversation()
    _ = conversation.begin()
    let first = try conversation.finished(by: .remote).map { try ParsedPacket($0.bytes) }
    #expect(first.map(\.flags) == [[.finish, .acknowledge]] && first.map(\.sequence) == [5001])
    #expect(conversation.finished(by: .remote).isEmpty)
    #expect(conversation.sent(pattern(1).span, by: .remote).isEmpty)
    let rest = try conversation.sent(pattern(5).span, by: .local).map { try ParsedPacket($0.bytes) }
    #expect(rest.map(\.acknowledgement) == [5002])
    #expect(!conversation.hasEnded)
    let second = try conversation.finished(by: .local).map { try ParsedPacket($0.bytes) }
    #expect(second.map(\.sequence) == [1006])
    #expect(conversation.hasEnded)
    #expect(conversation.reset(by: .local).isEmpty)
  }

  @Test(arguments: [CapturedConversation.Side.local, .remote])
  func `Nothing follows a reset`(side: CapturedConversation.Side) throws {
    var conversation = Self.conversation()
    #expect(conversation.reset(by: side).isEmpty && conversation.sent(pattern(1).span, by: side).isEmpty)
    _ = conversation.begin()
    _ = conversation.finished(by: side)
    let reset = try conversation.reset(by: side).map { try ParsedPacket($0.bytes) }
    #expect(reset.map(\.flags) == [[.reset, .acknowledge]])
    for other in [CapturedConversation.Side.local, .remote] {
      #expect(conversation.sent(pattern(1).span, by: other).isEmpty)
      #expect(conversation.finished(by: other).isEmpty && conversation.reset(by: other).isEmpty)
    }
    #expect(conversation.hasEnded)
  }

  @Test func `Connections without IP addresses have stand-ins of their own`() throws {
    let path = SocketAddress.unix(try UnixPath(parsing: "/run/a"))
    let (connecting, peer) = CapturedEnd.ends(local: nil, remote: path, number: 0x102, isAccepted: false)
    #expect(connecting == CapturedEnd(address: try address("2001:db8:0:1::102"), port: 49_152))
    #expect(peer == CapturedEnd(address: try address("2001:db8:0:2::102"), port: 49_153))
    let (accepting, _) = CapturedEnd.ends(local: path, remote: nil, number: 0x102, isAccepted: true)
    #expect(accepting == peer)
  }

  @Test func `Ends of two families become IPv6, and mapped addresses IPv4`() throws {
    let (ipv4, ipv6) = (try SocketAddress(parsing: "192.0.2.1:5"), try SocketAddress(parsing: "[2001:db8::9]:6"))
    let mixed = CapturedEnd.ends(local: ipv4, remote: ipv6, number: 1, isAccepted: false)
    #expect(mixed.local == CapturedEnd(address: try address("::ffff:192.0.2.1"), port: 5))
    #expect(mixed.remote == CapturedEnd(address: try address("2001:db8::9"), port: 6))
    let mapped = try SocketAddress(parsing: "[::ffff:192.0.2.7]:7")
    let both = CapturedEnd.ends(local: ipv4, remote: mapped, number: 1, isAccepted: false)
    #expect(both.local.address == [192, 0, 2, 1] && both.remote.address == [192, 0, 2, 7])
  }

  @Test func `Ends of datagrams have their own addresses, or stand-ins`() throws {
    func parsed(_ text: String) throws -> SocketAddress { try SocketAddress(parsing: text) }
    let (all, peer) = (try parsed("[::]:53"), try parsed("192.0.2.1:5"))
    let unspecified = CapturedEnd.ends(ofDatagram: all, remote: peer, number: 1)
    #expect(unspecified.local == CapturedEnd(address: [0, 0, 0, 0], port: 53))
    #expect(unspecified.remote == CapturedEnd(address: [192, 0, 2, 1], port: 5))
    let (own, other) = (
      try SocketAddress.unix(UnixPath(parsing: "@own")), try SocketAddress.unix(UnixPath(parsing: "@a"))
    )
    let named = CapturedEnd.ends(ofDatagram: own, remote: other, number: 0x102)
    #expect(named.local == CapturedEnd(address: try address("2001:db8:0:3::102"), port: 49_154))
    // FNV-1a of a zero byte and an "a".
    #expect(named.remote == CapturedEnd(address: try address("2001:db8:0:4:832:6707:b4eb:37da"), port: 49_155))
    let unnamed = CapturedEnd.ends(ofDatagram: own, remote: nil, number: 0x102)
    #expect(unnamed.local == named.local)
    #expect(unnamed.remote == CapturedEnd(address: try address("2001:db8:0:4::"), port: 49_155))
  }

  private func address(_ text: String) throws -> [UInt8] { try IPv6Address(parsing: text).bytes }
}
