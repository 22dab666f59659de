import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Sizes that are changed after bind.
@Suite(.conformance, .endsInTime) struct DatagramSizesTests {
  @Test(arguments: DatagramTransport.allCases)
  func `The largest size of received datagrams changes for its family`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair()
    func receivedSize(_ size: Int) async throws -> Int {
      try await client.send(pattern(size), to: address)
      let datagram = try await server.receive()
      #expect(datagram.isTruncated == (datagram.bytes.count < size))
      return datagram.bytes.count
    }
    func set(_ size: Int, isOfIPv6: Bool) async throws {
      if isOfIPv6 {
        try await server.setMaximumReceiveSizeIPv6(size)
      } else {
        try await server.setMaximumReceiveSizeIPv4(size)
      }
    }
    #expect(try await receivedSize(100) == 100)
    try await set(10, isOfIPv6: !address.isIPv6)
    #expect(try await receivedSize(100) == 100)
    try await set(20, isOfIPv6: address.isIPv6)
    #expect(try await receivedSize(100) == 20)
    try await server.setMaximumReceiveSizeIPv4(1)
    try await server.setMaximumReceiveSizeIPv6(1)
    #expect(try await receivedSize(100) == 1)
    // More than the largest size at the start.
    try await set(20_000, isOfIPv6: address.isIPv6)
    #expect(try await receivedSize(15_000) == 15_000)
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `Datagrams that were fetched keep their size`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair()
    for _ in 0..<2 { try await client.send(pattern(100), to: address) }
    #expect(try await server.receive().bytes.count == 100)
    try await server.setMaximumReceiveSizeIPv4(10)
    try await server.setMaximumReceiveSizeIPv6(10)
    try await client.send(pattern(100), to: address)
    #expect(try await server.receive().bytes.count == 100)
    #expect(try await server.receive().bytes.count == 10)
  }

  @Test(arguments: DatagramTransport.allCases)
  func `The largest size of datagrams that are sent changes at once, for calls of every thread`(
    transport: DatagramTransport
  ) async throws {
    let (client, server, address) = try transport.pair()
    // The first send opens the gate, through which other threads send.
    for count in 1...2 { try await client.send(pattern(count), to: address) }
    try await client.setMaximumSendSize(10)
    for _ in 0..<2 {
      await expectError(.limitExceeded) { try await client.send(pattern(11), to: address) }
      await expectError(.limitExceeded) { try await client.send(Datagram(pattern(11), to: address)) }
      try await client.send(pattern(10), to: address)
    }
    try await client.setMaximumSendSize(11)
    try await client.send(pattern(11), to: address)
    try await client.setMaximumSendSize(0)
    try await client.send([], to: address)
    await expectError(.limitExceeded) { try await client.send([1], to: address) }
    for count in [1, 2, 10, 10, 11, 0] { #expect(try await server.receive().bytes.count == count) }
  }

  @Test(.inRealTime) func `A datagram that waits when the size is lowered is refused at its turn`() async throws {
    let (client, server, address, sent) = try await DatagramTransport.full()
    let long = client.enqueueSend(Datagram(pattern(100), to: address))
    let short = client.enqueueSend(Datagram(pattern(10), to: address))
    try await client.hasPending(sends: 2)
    try await client.setMaximumSendSize(10)
    for _ in 0..<sent { #expect(try await server.receive().bytes.count == 1) }
    #expect(try await server.receive().bytes.count == 10)
    await expectError(.limitExceeded) { try await long.value }
    try await short.value
  }

  @Test func `Sizes out of range are refused, and change nothing`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    for size in [0, -1, 65_536, .max, .min] {
      await expectError(.invalidArgument, saying: "set maximumReceiveSizeIPv4") {
        try await server.setMaximumReceiveSizeIPv4(size)
      }
      await expectError(.invalidArgument, saying: "set maximumReceiveSizeIPv6") {
        try await server.setMaximumReceiveSizeIPv6(size)
      }
    }
    for size in [-1, .min] {
      await expectError(.invalidArgument, saying: "set maximumSendSize") { try await client.setMaximumSendSize(size) }
      await expectError(.invalidArgument) { _ = try DatagramTransport.ipv4.bind { $0.maximumSendSize = size } }
    }
    for size in [-1, .max] {
      await expectError(.invalidArgument) { try await client.set(.receiveBufferSize, to: size) }
      await expectError(.invalidArgument) { try await client.set(.sendBufferSize, to: size) }
    }
    for size in [1, 65_535] { try await server.setMaximumReceiveSizeIPv4(size) }
    try await client.setMaximumSendSize(.max)
    try await client.send(pattern(9_000), to: address)
    #expect(try await server.receive().bytes.count == 9_000)
  }

  @Test func `The sizes of a closed endpoint cannot be changed`() async throws {
    let endpoint = try DatagramTransport.ipv4.bind()
    await endpoint.close()
    await expectError(.closed) { try await endpoint.setMaximumReceiveSizeIPv4(10) }
    await expectError(.closed) { try await endpoint.setMaximumReceiveSizeIPv6(10) }
    await expectError(.closed) { try await endpoint.setMaximumSendSize(10) }
    await expectError(.closed) { try await endpoint.set(.receiveBufferSize, to: 10_000) }
    await expectError(.closed) { try await endpoint.set(.sendBufferSize, to: 10_000) }
  }

  @Test(.inRealTime) func `The kernel's buffers of all sockets change`() async throws {
    let duplicates = Notes<RawSocket>()
    let endpoint = try UDPEndpoint.bind(
      to: .host("localhost", port: 0),
      configuration: .changed { $0.prepare = { duplicates.add(RawSocket(owning: dup($0.fileDescriptor))) } })
    try await endpoint.set(.receiveBufferSize, to: 30_000)
    try await endpoint.set(.sendBufferSize, to: 20_000)
    let sockets = duplicates.all.map { BorrowedDescriptor($0.number) }
    #expect(sockets.count == endpoint.localAddresses.count)
    for socket in sockets {
      // The kernel doubles the sizes.
      #expect(try socket.get(RawOption.receiveBuffer) == 60_000 && socket.get(RawOption.sendBuffer) == 40_000)
    }
  }
}
