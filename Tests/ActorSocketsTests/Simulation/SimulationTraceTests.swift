import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct SimulationTraceTests {
  @Test func `The last lines are kept in their order, and the hash counts all`() {
    var one = SimulationTrace()
    var other = SimulationTrace()
    one.record(.note("first"), at: 0, on: 0)
    other.record(.note("First"), at: 0, on: 0)
    #expect(one.lines == ["0.000000000 s first"])
    for number in 1...SimulationTrace.kept + 5 {
      one.record(.note("\(number)"), at: Int64(number), on: 0)
      other.record(.note("\(number)"), at: Int64(number), on: 0)
    }
    #expect(one.lines == other.lines && one.hash != other.hash)
    #expect(one.lines.count == SimulationTrace.kept)
    #expect(one.lines.first == "0.000000006 s 6" && one.lines.last == "0.000001005 s 1005")
  }

  @Test func `Events differ by kind, time and text`() {
    let events: [(SimulationTrace.Event, Int64)] = [
      (.task(1), 0), (.task(2), 0), (.mainActor(1), 0), (.worker(1), 0), (.actor, 0), (.reactor, 0), (.task(1), 1),
      (.note(""), 0),
      (.note("a"), 0), (.note("b"), 0),
      (.local(.memory, count: 1, hash: 1), 0), (.local(.memory, count: 1, hash: 2), 0),
      (.local(.unixSocket, count: 1, hash: 1), 0),
    ]
    let hashes = events.map { event, time in
      var trace = SimulationTrace()
      trace.record(event, at: time, on: 0)
      return trace.hash
    }
    #expect(Set(hashes).count == events.count)
  }

  /// Everything that one packet can differ in from another one.
  @Test func `Packets differ by their addresses, their bytes and what their headers say`() {
    let (one, other) = (
      SocketAddress.ipv4(IPv4Address(rawValue: 0x0a00_0001), port: 1),
      SocketAddress.ipv4(IPv4Address(rawValue: 0x0a00_0002), port: 1)
    )
    func v6(_ high: UInt64, _ low: UInt64) -> SocketAddress { .ipv6(IPv6Address(high: high, low: low), port: 1) }
    func segment(_ change: (inout Segment) -> Void) -> Packet.Content {
      var segment = Segment(acknowledged: 1, bytes: [1, 2, 3])
      change(&segment)
      return .segment(segment)
    }
    let contents: [Packet.Content] = [
      segment { _ in }, segment { $0.bytes = [1, 2, 4] }, segment { $0.bytes[0] = 129 }, segment { $0.window = 7 },
      segment { $0.isFin = true }, segment { $0.isReset = true }, segment { $0.isSyn = true },
      segment { $0.sequence = 1 }, segment { $0.acknowledged = nil },
      segment { $0.bytes = [UInt8](repeating: 0, count: 8) },
      segment { $0.bytes = [UInt8](repeating: 0, count: 16) }, segment { $0.bytes = [UInt8](repeating: 0, count: 17) },
      .datagram(UDPDatagram(bytes: [1])), .datagram(UDPDatagram(bytes: [2])), .datagram(UDPDatagram(bytes: [])),
      .datagram(UDPDatagram(bytes: [1], hopLimit: 1)), .datagram(UDPDatagram(bytes: [1], trafficClass: 1)),
      .report(ICMPReport(kind: .portUnreachable, flow: Flow(local: one, remote: other))),
      .report(ICMPReport(kind: .portUnreachable, flow: Flow(local: other, remote: one))),
      .report(ICMPReport(kind: .portUnreachable, flow: Flow(local: one, remote: other), sequence: 1)),
      .report(ICMPReport(kind: .rejected(.hostUnreachable), flow: Flow(local: one, remote: other))),
      .report(ICMPReport(kind: .rejected(.administrativelyProhibited), flow: Flow(local: one, remote: other))),
    ]
    let packets =
      contents.map { (Packet(source: one, destination: other, content: $0), 1) } + [
        (Packet(source: other, destination: one, content: contents[0]), 1),
        (Packet(source: one, destination: one, content: contents[0]), 1),
        (Packet(source: one.with(port: 2), destination: other, content: contents[0]), 1),
        (Packet(source: v6(1, 1), destination: v6(1, 2), content: contents[0]), 1),
        (Packet(source: v6(2, 1), destination: v6(1, 2), content: contents[0]), 1),
        (Packet(source: one, destination: other, content: contents[0]), 0),
        (Packet(source: one, destination: other, content: contents[0]), 2),
      ]
    let hashes = packets.map { packet, copies in
      var trace = SimulationTrace()
      trace.record(.packet(SimulatedNetwork.PacketEvent(packet, copies: copies)), at: 0, on: 0)
      return trace.hash
    }
    #expect(Set(hashes).count == packets.count)
  }

  @Test func `Changes in neighbouring words do not cancel out`() {
    func hash(_ words: [UInt64]) -> UInt64 {
      var hash = TraceHash()
      for word in words { hash.mix(word) }
      return hash.value
    }
    let bits = (0..<64).map { UInt64(1) << UInt64($0) }
    var hashes = [hash([0, 0])]
    for bit in bits {
      hashes += [hash([bit, 0]), hash([0, bit])]
      for other in bits { hashes.append(hash([bit, other])) }
    }
    #expect(Set(hashes).count == hashes.count)
  }
}
