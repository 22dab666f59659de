import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// The forms in which a program may have the bytes of a datagram.
@Suite(.conformance, .endsInTime) struct SendFormTests {
  private static let bytes = Array("0123456789".utf8)

  @Test(arguments: DatagramTransport.allCases, [false, true])
  func `Bytes in any form are one datagram, wherever it goes`(
    transport: DatagramTransport, isConnected: Bool
  ) async throws {
    let (client, server, address) = try transport.pair()
    let bytes = Self.bytes
    let pieces = [[65], [], Array(bytes[6...]), [66]]
    var expected: [[UInt8]] = []
    // A unix socket has room for ten.
    async let received: [[UInt8]] = {
      var received: [[UInt8]] = []
      while received.count < (isConnected ? 12 : 7) { received.append(try await server.receive().bytes) }
      return received
    }()
    if isConnected {
      try await client.connect(to: .address(address))
      try await client.send(bytes.span.extracting(4..<6))
      try await client.send(bytes[2..<4])
      try await client.send("abc".dropFirst().utf8)
      try await client.send(contentsOf: pieces)
      try await client.send(contentsOf: [])
      expected = ["45", "23", "bc", "A6789B", ""].map { Array($0.utf8) }
    }
    try await client.send(bytes.span.extracting(4..<6), to: address)
    try await client.send(bytes[2..<4], to: address)
    try await client.send(contentsOf: pieces, to: address)
    try await client.send(bytes.span.extracting(0..<2), to: .address(address))
    try await client.send(bytes[4..<6], to: .address(address))
    try await client.send(contentsOf: pieces, to: .address(address))
    try await client.enqueueSend(Datagram(contentsOf: pieces, to: address)).value
    expected += ["45", "23", "A6789B", "01", "45", "A6789B", "A6789B"].map { Array($0.utf8) }
    #expect(try await received == expected)
    let request = Datagram(bytes, to: address)
    let replies = [
      request.reply(bytes.span.extracting(1..<3)), request.reply(bytes[3...4]), request.reply(contentsOf: pieces),
    ]
    #expect(replies.map(\.bytes) == ["12", "34", "A6789B"].map { Array($0.utf8) })
    #expect(replies.allSatisfy { $0.remoteAddress == address })
    let metrics = await client.metrics
    #expect(metrics.datagramsSent == UInt64(expected.count))
    #expect(metrics.bytesSent == UInt64(expected.reduce(0) { $0 + $1.count }))
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Any number of pieces, empty ones included, is one datagram`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair()
    for count in [0, 1, 2, BorrowedDescriptor.maximumPieces, BorrowedDescriptor.maximumPieces + 1, 1000] {
      for isEmpty in [false, true] {
        let pieces = (0..<count).map { isEmpty ? [] : [UInt8(truncatingIfNeeded: $0), 7] }
        try await client.send(contentsOf: pieces, to: address)
        #expect(try await server.receive().bytes == Array(pieces.joined()))
      }
    }
  }

  @Test func `Pieces on the reactor's thread and on others are sent alike`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let sending: @Sendable () async throws -> Void = {
      for number in 0..<100 { try await client.send(contentsOf: [[UInt8(number)], [1, 2]], to: address) }
    }
    try await sending()
    for number in 0..<100 { #expect(try await server.receive().bytes == [UInt8(number), 1, 2]) }
    try await withTaskExecutorPreference(client.executor.reactor) { try await sending() }
    for number in 0..<100 { #expect(try await server.receive().bytes == [UInt8(number), 1, 2]) }
  }

  @Test func `Pieces that have no room wait as one datagram`() async throws {
    let (client, server, address, sent) = try await DatagramTransport.full()
    let waiting = Task.immediate { try await client.send(contentsOf: [[1, 2], [3]], to: address) }
    try await client.hasPending(sends: 1)
    for _ in 0..<sent { _ = try await server.receive() }
    #expect(try await server.receive().bytes == [1, 2, 3])
    try await waiting.value
  }

  @Test func `Pieces that are too long together are refused, and a filter sees them joined`() async throws {
    let (_, server, address) = try DatagramTransport.ipv4.pair()
    let seen = Notes<[UInt8]>()
    let client = try DatagramTransport.ipv4.bind {
      $0.maximumSendSize = 4
      $0.sendFilter = { datagram in
        seen.add(datagram.bytes)
        return .pass
      }
    }
    await expectError(.limitExceeded, saying: "5 bytes") {
      try await client.send(contentsOf: [[1, 2], [3, 4, 5]], to: address)
    }
    try await client.send(contentsOf: [[1, 2], [3, 4]], to: address)
    #expect(try await server.receive().bytes == [1, 2, 3, 4])
    #expect(seen.all == [[1, 2, 3, 4, 5], [1, 2, 3, 4]])
  }
}
