import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Captures of endpoints.
@Suite(.conformance, .endsInTime) struct DatagramCaptureTests {
  private let folder = try? Folder()

  private func path(_ name: String = "capture") throws -> String { try #require(folder).file(name).path }

  @Test(arguments: DatagramTransport.allCases)
  func `Each datagram that is sent or received is recorded once`(transport: DatagramTransport) async throws {
    // In a simulation, nothing waits for the thread that writes a file. So here the packets are counted.
    let capture = try PacketCapture(path: "/dev/null", replacing: true)
    let (client, server, address) = try transport.pair { $0.capture = capture }
    for round in 1...5 {
      // A unix socket has room for ten.
      for number in 0..<8 { try await client.send([UInt8(number)], to: address) }
      var received: [Datagram] = []
      while received.count < 8 { received += try await server.receive(upTo: 3) }
      #expect(capture.recordedPackets == round * 16 - 8)
      try await server.send(received.map { $0.reply($0.bytes) })
      for number in 0..<8 { #expect(try await client.receive().bytes == [UInt8(number)]) }
      #expect(capture.recordedPackets == round * 16)
    }
    let metrics = await server.metrics
    #expect(metrics.datagramsSent == 40 && metrics.datagramsReceived == 40)
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `The file has the bytes, the directions and the addresses`(transport: DatagramTransport) async throws {
    let capture = try PacketCapture(path: path())
    let (server, address) = try { ($0, try transport.address(of: $0)) }(transport.bind())
    let client = try transport.bind { $0.capture = capture }
    client.label = "the client"
    try await client.send(pattern(1), to: address)
    try await client.send(contentsOf: [pattern(1), pattern(1, from: 1)], to: address)
    try await client.send([Datagram(pattern(3), to: address), Datagram(pattern(4), to: address)])
    try await client.enqueueSend(Datagram(pattern(5), to: address)).value
    try await Self.sendNow(pattern(6), through: client, to: address)
    for number in 1..<7 {
      let request = try await server.receive()
      #expect(request.bytes == pattern(number))
      try await server.send(request.reply(pattern(100 + number)))
    }
    for number in 1..<7 { #expect(try await client.receive().bytes == pattern(100 + number)) }
    // From other threads, too.
    for _ in 0..<20 {
      try await client.send(pattern(7), to: address)
      #expect(try await server.receive().bytes == pattern(7))
    }
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.packets.allSatisfy { $0.parsed.isDatagram })
    let (sent, received) = (file.packets.filter(\.isOutbound), file.packets.filter { !$0.isOutbound })
    #expect(sent.map(\.parsed.payload) == (Array(1..<7) + Array(repeating: 7, count: 20)).map { pattern($0) })
    #expect(received.map(\.parsed.payload) == (101..<107).map { pattern($0) })
    #expect(file.packets.first?.comment == "endpoint \(client)")
    #expect(file.packets.dropFirst().allSatisfy { $0.comment == nil })
    for packet in file.packets {
      let parsed = packet.parsed
      let own = packet.isOutbound ? (parsed.source, parsed.sourcePort) : (parsed.destination, parsed.destinationPort)
      let peer = packet.isOutbound ? (parsed.destination, parsed.destinationPort) : (parsed.source, parsed.sourcePort)
      #expect(own.1 == (transport.isUnix ? 49_154 : client.port))
      #expect(peer.1 == (transport.isUnix ? 49_155 : address.port))
      if let end = CapturedEnd(address) { #expect(peer.0 == end.address) }
      if transport.isUnix { #expect(own.0.suffix(8) == client.id.bigEndianBytes) }
    }
    #expect(file.statistics?.received == UInt64(file.packets.count) && file.statistics?.dropped == 0)
  }

  private static func sendNow(
    _ bytes: [UInt8], through endpoint: isolated UDPEndpoint, to address: SocketAddress
  ) throws {
    #expect(try endpoint.sendNow(bytes.span, to: address))
  }

  @Test(.inRealTime) func `A connected endpoint has the address that its datagrams come from`() async throws {
    let capture = try PacketCapture(path: path())
    let server = try DatagramTransport.ipv4.bind()
    let client = try UDPEndpoint.bind(to: .port(0), configuration: .with { $0.capture = capture })
    try await client.connect(to: .address(server.localAddresses[0]))
    try await client.send([1])
    try await capture.finish()
    let packet = try #require(try CaptureFile(path: path()).packets.first).parsed
    #expect(packet.source == [127, 0, 0, 1] && packet.destination == [127, 0, 0, 1])
  }

  @Test(.inRealTime) func `Metadata tells the address, the hop limit and the traffic class`() async throws {
    let capture = try PacketCapture(path: path())
    let server = try UDPEndpoint.bind(
      to: .port(0),
      configuration: .with {
        $0.capture = capture
        $0.metadata = [.localAddress, .hopLimit, .trafficClass]
      })
    let client = try DatagramTransport.ipv4.bind()
    var request = Datagram([1], to: .ipv4(.loopback, port: try #require(server.port)))
    request.hopLimit = 7
    request.trafficClass = TrafficClass(rawValue: 8)
    try await client.send(request)
    try await server.send(try await server.receive().reply([2]))
    try await capture.finish()
    let packets = try CaptureFile(path: path()).packets.map(\.parsed)
    #expect(packets.map(\.destination) == [[127, 0, 0, 1], [127, 0, 0, 1]])
    #expect(packets.map(\.source) == [[127, 0, 0, 1], [127, 0, 0, 1]])
    // The time to live, and the type of service.
    #expect(packets.first.map { ($0.bytes[8], $0.bytes[1]) } ?? (0, 0) == (7, 8))
  }

  @Test(.inRealTime) func `Datagrams that wait are recorded when they are sent, and filters drop before or after`()
    async throws
  {
    let capture = try PacketCapture(path: "/dev/null", replacing: true)
    let (client, server, address, sent) = try await DatagramTransport.full { $0.capture = capture }
    #expect(capture.recordedPackets == sent)
    let waiting = Task.immediate { try await client.send(contentsOf: [[1], [2]], to: address) }
    let enqueued = client.enqueueSend(Datagram([3], to: address))
    try await client.hasPending(sends: 2)
    #expect(capture.recordedPackets == sent)
    for _ in 0..<sent { _ = try await server.receive() }
    try await waiting.value
    try await enqueued.value
    #expect(capture.recordedPackets == sent + 2)
    // What a filter of sends drops never reaches the kernel. What a filter of receives drops has come from it.
    await client.setSendFilter { _ in .drop }
    await client.setReceiveFilter { $0.bytes == [4] ? .drop : .pass }
    try await client.send([9], to: address)
    #expect(capture.recordedPackets == sent + 2)
    for byte in [4, 5] as [UInt8] { try await server.send([byte], to: client.localAddresses[0]) }
    #expect(try await client.receive().bytes == [5])
    #expect(capture.recordedPackets == sent + 4)
  }

  @Test(.inRealTime) func `A datagram that is longer than a packet of the file is cut off, with a comment`()
    async throws
  {
    let capture = try PacketCapture(path: path())
    let (_, _, address) = try DatagramTransport.ipv6.pair()
    let client = try DatagramTransport.ipv6.bind { $0.capture = capture }
    for count in [65_487, 65_488] { try await client.send(pattern(count), to: address) }
    try await capture.finish()
    let packets = try CaptureFile(path: path()).packets
    #expect(packets.map(\.parsed.payload) == [pattern(65_487), pattern(65_487)])
    #expect(packets.map(\.parsed.bytes.count) == [65_535, 65_535])
    #expect(packets.last?.comment == "cut off after 65487 of 65488 bytes")
  }
}
