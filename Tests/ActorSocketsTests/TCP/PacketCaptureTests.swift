import ActorSocketsTLS
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Captures of connections, read without other programs.
@Suite(.endsInTime, .tags(.manualMemory)) struct PacketCaptureTests {
  private let folder = try? Folder()

  private func path(_ name: String = "capture") throws -> String { try #require(folder).file(name).path }

  private func listener(
    on address: SocketAddress = .ipv4(.loopback, port: 0), _ capture: PacketCapture? = nil,
    reactor: Reactor = .shared
  ) throws -> TCPListener {
    let configuration = TCPListener.Configuration { $0.connection.capture = capture }
    return try TCPListener.bind(to: .address(address), configuration: configuration, reactor: reactor)
  }

  private func connect(
    to listener: TCPListener, _ capture: PacketCapture?, reactor: Reactor = .shared
  ) async throws -> TCPConnection {
    return try await TCPConnection.connect(
      to: listener.endpoint, configuration: .init { $0.capture = capture }, reactor: reactor)
  }

  /// A client whose packets are captured, and its peer.
  private func captured() async throws -> (PacketCapture, client: TCPConnection, server: TCPConnection) {
    let capture = try PacketCapture(path: path())
    let listener = try listener()
    return (capture, try await connect(to: listener, capture), try await listener.accept())
  }

  @Test(arguments: [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0)], [false, true])
  func `A conversation is recorded from the handshake to the end`(address: SocketAddress, isAccepted: Bool) async throws
  {
    let capture = try PacketCapture(path: path())
    let listener = try listener(on: address, isAccepted ? capture : nil)
    let client = try await connect(to: listener, isAccepted ? nil : capture)
    let server = try await listener.accept()
    let (captured, other) = isAccepted ? (server, client) : (client, server)
    async let sent: Void = captured.write(pattern(200_000))
    #expect(try await other.read(exactly: 200_000) == pattern(200_000))
    try await sent
    try await other.write(pattern(300, from: 5))
    #expect(try await captured.read(exactly: 300) == pattern(300, from: 5))
    try await other.finishWriting()
    #expect(try await captured.read(upTo: 1) == nil)
    await captured.close()
    try await capture.finish()

    let file = try CaptureFile(path: path())
    #expect(Array(file.flags.prefix(3)) == CaptureFile.handshake)
    #expect(file.packets.prefix(3).map(\.isOutbound) == (isAccepted ? [false, true, false] : [true, false, true]))
    #expect(file.bytes(outbound: true) == pattern(200_000))
    #expect(file.bytes(outbound: false) == pattern(300, from: 5))
    let ends: [CapturedPacket.Flags] = [[.finish, .acknowledge], [.finish, .acknowledge]]
    #expect(Array(file.flags.suffix(2)) == ends)
    #expect(file.packets.suffix(2).map(\.isOutbound) == [false, true])
    let times = file.packets.map(\.time)
    #expect(times == times.sorted())
    let comments = file.packets.map(\.comment)
    #expect(comments[0]?.hasPrefix("connection \(captured.id) ") == true)
    #expect(comments.dropFirst().allSatisfy { $0 == nil })
    #expect(file.packets[0].parsed.destinationPort == listener.address.port)
    let version: UInt8 = file.packets[0].parsed.bytes[0] >> 4
    #expect(version == (address.isIPv4 ? 4 : 6))
    #expect(capture.recordedPackets == file.packets.count && capture.droppedPackets == 0)
    #expect(file.statistics?.received == UInt64(file.packets.count) && file.statistics?.dropped == 0)
    #expect(!capture.hasReachedMaximumSize && capture.error == nil)
  }

  @Test func `Many small writes, files and borrowed reads are recorded as they moved`() async throws {
    let capture = try PacketCapture(path: path())
    let pair = try await Transport.tcpOverIPv6.pair {
      $0.capture = capture
      $0.isNarrow = true
    }
    let file = try TemporaryFile(pattern(300_000)).source
    var expected: [UInt8] = []
    for count in 1...60 {
      // Together more than the kernel takes at once, so that a gathered send ends within a piece.
      _ = pair.client.enqueueWrite(pattern(count * 200, from: count))
      expected += pattern(count * 200, from: count)
    }
    async let sent: Void = pair.client.sendFile(file)
    expected += pattern(300_000)
    var received: [UInt8] = []
    while received.count < expected.count {
      let bytes = try await pair.server.withBytes(upTo: 50_000) { bytes, consumed in
        consumed = max(1, bytes.count / 2)
        return [UInt8](copying: bytes.extracting(first: consumed))
      }
      received += try #require(bytes, "the stream ended")
    }
    try await sent
    #expect(received == expected)
    await pair.client.close()
    await pair.server.close()
    try await capture.finish()
    let packets = try CaptureFile(path: path())
    #expect(packets.bytes(outbound: true) == expected)
    #expect(packets.bytes(outbound: false) == expected)
  }

  @Test func `Connections of several reactors share a file`() async throws {
    let capture = try PacketCapture(path: path())
    let other = Reactor()
    let listener = try listener(capture, reactor: other)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<20 {
        group.addTask {
          let client = try await connect(to: listener, capture)
          try await client.write(pattern(1000, from: number))
          try await client.finishWriting()
          _ = try await client.readToEnd()
          await client.close()
        }
        group.addTask {
          let server = try await listener.accept()
          try await server.write(try await server.readToEnd())
          await server.close()
        }
      }
      try await group.waitForAll()
    }
    try await capture.finish()
    let file = try CaptureFile(path: path())
    let streams = Dictionary(grouping: file.packets) { packet in
      "\(packet.isOutbound) \(packet.parsed.sourcePort) \(packet.parsed.destinationPort)"
    }
    #expect(streams.count == 80)
    for packets in streams.values {
      #expect(packets.map(\.time) == packets.map(\.time).sorted())
      var next = packets[0].parsed.sequence
      for packet in packets {
        #expect(packet.parsed.sequence == next)
        let counts = packet.parsed.flags.contains(.synchronize) || packet.parsed.flags.contains(.finish)
        next &+= UInt32(packet.parsed.payload.count) + (counts ? 1 : 0)
      }
      #expect(packets.flatMap(\.parsed.payload).count == 1000)
    }
    other.shutdown()
  }

  @Test(arguments: [true, false])
  func `The side that resets is the one that the file shows`(isLocal: Bool) async throws {
    let (capture, client, server) = try await captured()
    try await client.write(pattern(10))
    #expect(try await server.read(exactly: 10) == pattern(10))
    if isLocal {
      await client.abort()
    } else {
      await server.abort()
      await expectError(.connectionReset) { _ = try await client.read(upTo: 1) }
      await client.close()
    }
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.flags.last == [.reset, .acknowledge])
    #expect(file.packets.last?.isOutbound == isLocal)
    #expect(file.flags.filter { $0.contains(.finish) }.isEmpty)
  }

  @Test func `A dropped connection finishes in the file, too`() async throws {
    let capture = try PacketCapture(path: path())
    let listener = try listener()
    var client: TCPConnection? = try await connect(to: listener, capture)
    let server = try await listener.accept()
    try await client?.write(pattern(10))
    client = nil
    #expect(try await server.readToEnd() == pattern(10))
    try await eventually("the end is recorded") { capture.recordedPackets == 5 }
    try await capture.finish()
    #expect(try CaptureFile(path: path()).flags.last == [.finish, .acknowledge])
  }

  @Test func `A connection that never came up leaves no packet`() async throws {
    let capture = try PacketCapture(path: path())
    let listener = try listener()
    await listener.close()
    await expectError(.connectionRefused) { _ = try await connect(to: listener, capture) }
    try await capture.finish()
    #expect(try CaptureFile(path: path()).packets.isEmpty)
  }

  @Test func `A unix socket has stand-ins for addresses`() async throws {
    let capture = try PacketCapture(path: path())
    let pair = try await Transport.unix.pair { $0.capture = capture }
    try await pair.client.write(pattern(10))
    #expect(try await pair.server.read(exactly: 10) == pattern(10))
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.bytes(outbound: true) == pattern(10) && file.bytes(outbound: false) == pattern(10))
    for packet in file.packets { #expect(packet.parsed.source.prefix(4) == [0x20, 0x01, 0x0d, 0xb8]) }
  }

  // MARK: TLS

  @Test(arguments: [Transport.tcpOverIPv4, .unix])
  func `Of an encrypted connection, the file has what was encrypted`(transport: Transport) async throws {
    let capture = try PacketCapture(path: path())
    let pair = try await transport.pair { $0.capture = capture }
    try await pair.client.write(utf8: "STARTTLS\r\n")
    #expect(try await pair.server.read(until: .crlf) == Array("STARTTLS\r\n".utf8))
    let context = try TestContexts.context(.v13)
    let client = pair.client.startTLS(context, as: .client(serverName: "server.test"))
    let server = pair.server.startTLS(context, as: .server)
    async let sent: Void = client.write(pattern(100_000))
    #expect(try await server.read(exactly: 100_000) == pattern(100_000))
    try await sent
    try await server.write(utf8: "an answer")
    try await server.finishWriting()
    #expect(try await client.readToEnd() == Array("an answer".utf8))
    await client.close()
    #expect(try await server.read(upTo: 1) == nil)
    await server.close()
    try await capture.finish()
    let file = try CaptureFile(path: path())
    let question = Array("STARTTLS\r\n".utf8) + pattern(100_000)
    let ports = Set(file.packets.filter(\.isOutbound).map(\.parsed.sourcePort))
    #expect(ports.count == 2 || transport == .unix)
    // Each end recorded both directions: the bytes of one and the other.
    let outbound = Dictionary(grouping: file.packets.filter(\.isOutbound)) { $0.parsed.source }
    let sides = transport == .unix ? Array(outbound.values) : Self.byPort(file.packets.filter(\.isOutbound))
    let streams: [[UInt8]] = sides.map { $0.flatMap(\.parsed.payload) }.sorted { $0.count < $1.count }
    #expect(streams == [Array("an answer".utf8), question])
    #expect(file.bytes(outbound: false).count == question.count + 9)
    #expect(file.flags.count { $0.contains(.finish) } == 4)
    #expect(file.flags.filter { $0.contains(.reset) }.isEmpty)
  }

  private static func byPort(_ packets: [CaptureFile.Packet]) -> [[CaptureFile.Packet]] {
    Array(Dictionary(grouping: packets) { $0.parsed.sourcePort }.values)
  }

  @Test func `A handshake that fails leaves its plain text in the file, and no ciphertext`() async throws {
    let (capture, plain, server) = try await captured()
    try await plain.write(utf8: "STARTTLS\r\n")
    let client = plain.startTLS(try TestContexts.context(.v13), as: .client(serverName: "server.test"))
    _ = try await server.read(until: .crlf)
    try await server.write(utf8: "this is no TLS at all\r\n")
    await #expect(throws: TLSError.self) { try await client.handshake() }
    await client.close()
    try await server.finishWriting()
    await plain.close()
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.bytes(outbound: true) == Array("STARTTLS\r\n".utf8))
    #expect(file.bytes(outbound: false).isEmpty)
    #expect(file.flags.last?.contains(.finish) == true)
  }

  // MARK: Files

  @Test func `Only the owner may read the file, and nothing is overwritten by accident`() async throws {
    let path = try path()
    try await PacketCapture(path: path).finish()
    #expect(try Self.permissions(of: path) == 0o600)
    let error = await expectError(.pathExists) { _ = try PacketCapture(path: path) }
    #expect(error.description == "capture to \"\(path)\": there is something at this path (File exists)")
    try Data("old".utf8).write(to: URL(fileURLWithPath: path))
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
    try await PacketCapture(path: path, replacing: true).finish()
    #expect(try Self.permissions(of: path) == 0o600)
    #expect(try CaptureFile(path: path).packets.isEmpty)
    await expectError(.invalidArgument) { _ = try PacketCapture(path: "a\0b") }
    await expectError(.invalidArgument) { _ = try PacketCapture(path: path, replacing: true, maximumFileSize: 4095) }
    await expectError(.invalidArgument) { _ = try PacketCapture(path: path, replacing: true, bufferSize: 131_071) }
  }

  private static func permissions(of path: String) throws -> Int {
    try #require(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
  }

  @Test func `A full disk ends recording, and the connection goes on`() async throws {
    let capture = try PacketCapture(path: "/dev/full", replacing: true)
    let pair = try await Transport.tcpOverIPv4.pair { $0.capture = capture }
    try await eventually("writing fails") { capture.error != nil }
    for _ in 0..<20 {
      try await pair.client.write(pattern(5000))
      #expect(try await pair.server.read(exactly: 5000) == pattern(5000))
    }
    let error = await expectError(.system) { try await capture.finish() }
    #expect(error.errno == ENOSPC)
    #expect(error.description == "capture to \"/dev/full\": write failed (No space left on device)")
    #expect(capture.recordedPackets == 0 && capture.droppedPackets >= 46)
    await expectError(.system) { try await capture.finish() }
  }

  @Test func `A file that has reached its size ends with whole packets`() async throws {
    let capture = try PacketCapture(path: path(), maximumFileSize: 10_000)
    let pair = try await Transport.tcpOverIPv4.pair { $0.capture = capture }
    for _ in 0..<20 {
      try await pair.client.write(pattern(1000))
      #expect(try await pair.server.read(exactly: 1000) == pattern(1000))
    }
    #expect(capture.hasReachedMaximumSize)
    try await capture.finish()
    let size = try Data(contentsOf: URL(fileURLWithPath: path())).count
    #expect(size <= 10_000 && size > 8_500)
    let file = try CaptureFile(path: path())
    #expect(file.packets.count == capture.recordedPackets)
    #expect(capture.recordedPackets + capture.droppedPackets == 46)
    #expect(file.statistics?.received == 46 && file.statistics?.dropped == UInt64(capture.droppedPackets))
  }

  @Test func `A disk that takes nothing costs packets, and holds up nothing`() async throws {
    let path = try path("pipe")
    // SAFETY: the text is valid for the call.
    #expect(unsafe mkfifo(path, 0o600) == 0)
    // SAFETY: the text is valid for the call.
    let reader = unsafe open(path, O_RDONLY | O_NONBLOCK)
    let capture = try PacketCapture(path: path, replacing: true, bufferSize: 131_072)
    let pair = try await Transport.tcpOverIPv4.pair { $0.capture = capture }
    for _ in 0..<20 {
      try await pair.client.write(pattern(50_000))
      #expect(try await pair.server.read(exactly: 50_000) == pattern(50_000))
    }
    #expect(capture.droppedPackets > 0 && capture.error == nil)
    let finishing = Task { try await capture.finish() }
    finishing.cancel()
    await #expect(throws: CancellationError.self) { try await finishing.value }
    async let finished: Void = capture.finish()
    let file = try CaptureFile([UInt8](try await onThread { try Self.readAll(reader) }))
    try await finished
    #expect(file.packets.count == capture.recordedPackets)
    #expect(file.statistics?.dropped == UInt64(capture.droppedPackets))
  }

  @Test func `All tasks that wait for the end of a file are told, and so are those that are cancelled`() async throws {
    for round in 0..<20 {
      let capture = try PacketCapture(path: path("capture \(round)"))
      let waiting = (0..<8).map { _ in Task { try await capture.finish() } }
      for task in waiting[..<4] { task.cancel() }
      for task in waiting[..<4] { do { try await task.value } catch is CancellationError {} }
      for task in waiting[4...] { try await task.value }
    }
  }

  /// Reads to the end of a pipe that was opened without waiting, and closes it.
  private static func readAll(_ number: Int32) throws -> Data {
    #expect(fcntl(number, F_SETFL, 0) == 0)
    let handle = FileHandle(fileDescriptor: number, closeOnDealloc: true)
    return try handle.readToEnd() ?? Data()
  }

  @Test func `The label of a connection is cut by bytes, also within a character`() async throws {
    let path = try path()
    let configuration = try TCPConnection.Configuration { $0.capture = try PacketCapture(path: path) }
    let peer = try RawSocket.listening()
    // The reactor connects only when the label is set.
    let reactor = Reactor()
    let connection = try await reactor.whileBlocked {
      let connection = TCPConnection(to: .address(try peer.address), configuration: configuration, reactor: reactor)
      connection.label = "e" + String(repeating: "\u{301}", count: 40_000)
      return connection
    }
    try await connection.write([1])
    await connection.abort()
    try await configuration.capture?.finish()
    let comment = try #require(try CaptureFile(path: path).packets.compactMap(\.comment).first)
    #expect(comment.utf8.starts(with: "connection ".utf8))
    #expect((900...1_011).contains(comment.utf8.count))
  }

  @Test(arguments: [0, 1, 65_534, 65_535, 65_536, 200_000])
  func `A comment has at most 65,535 bytes, as many as its length can say`(count: Int) {
    let block = CaptureBlock.packet([], at: 0, .outbound, comment: String(repeating: "a", count: count))
    let length = min(count, 65_535)
    // The option is behind a packet without bytes.
    let option: [UInt8] = [1, 0, UInt8(length & 0xff), UInt8(length >> 8)]
    #expect(Array(block[28..<32]) == option)
  }
}
