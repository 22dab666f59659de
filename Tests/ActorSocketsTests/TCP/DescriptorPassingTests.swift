import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Two connections of one unix socket pair.
private func unixPair(
  waiting maximum: Int = 16, serverWaiting: Int? = nil
) async throws -> (TCPConnection, TCPConnection) {
  var configuration = TCPConnection.Configuration { $0.pendingDescriptorLimit = maximum }
  if conformanceIsSimulated {
    let listening = TCPListener.Configuration { $0.connection.pendingDescriptorLimit = serverWaiting ?? maximum }
    let listener = try TCPListener.bind(to: .unix(path: "@passing"), configuration: listening)
    let client = try await TCPConnection.connect(to: .unix(path: "@passing"), configuration: configuration)
    let server = try await listener.accept()
    await listener.close()
    return (client, server)
  }
  let (client, far) = try StreamSocket.unix.connection(configuration)
  configuration.pendingDescriptorLimit = serverWaiting ?? maximum
  return (client, try TCPConnection.adopt(fileDescriptor: far.release(), configuration: configuration))
}

extension TCPConnection {
  fileprivate nonisolated func takenDescriptor() async throws -> OwnedDescriptor {
    guard let descriptor = await takeDescriptor() else { throw Overdue(description: "no descriptor waits") }
    return descriptor
  }
}

@Suite(.conformance, .endsInTime, .tags(.manualMemory, .simulated)) struct DescriptorPassingTests {
  @Test func `The end of a pipe goes there, and the other one back`() async throws {
    let (client, server) = try await unixPair()
    let ends = try pipeEnds()
    let reading = OwnedDescriptor(owning: ends.reading)
    let writing = OwnedDescriptor(owning: ends.writing)
    try await client.write(Array("writing end".utf8), passing: writing)
    #expect(try await server.read(exactly: 11) == Array("writing end".utf8))
    let received = try await server.takenDescriptor()
    #expect(conformanceIsSimulated || fcntl(received.number, F_GETFD) & FD_CLOEXEC != 0)
    received.writeByte(7)
    _ = consume received
    try await server.write(Array("reading end".utf8), passing: reading)
    #expect(try await client.read(exactly: 11) == Array("reading end".utf8))
    let back = try await client.takenDescriptor()
    #expect(back.readByte() == 7)
    // Both of this process's writing ends are closed by now.
    #expect(back.readByte() == nil)
    let none = await client.takeDescriptor() == nil
    #expect(none)
  }

  @Test func `Descriptors keep their place among writes before and behind`() async throws {
    let (client, server) = try await unixPair(waiting: 100)
    var tasks: [Task<Void, any Error>] = []
    for index in 0..<50 {
      if index % 2 == 0 {
        tasks.append(Task.immediate { try await client.write(pattern(5000, from: index * 5000)) })
      } else {
        tasks.append(
          Task.immediate {
            try await client.write(pattern(5000, from: index * 5000), passing: try readingEnd(after: UInt8(index)))
          })
      }
    }
    for index in 0..<50 {
      #expect(try await server.read(exactly: 5000) == pattern(5000, from: index * 5000))
      if index % 2 == 1 {
        let descriptor = try await server.takenDescriptor()
        #expect(descriptor.readByte() == UInt8(index))
      }
    }
    for task in tasks { try await task.value }
  }

  @Test func `A thousand descriptors go through and leave none behind`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.passThousand() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.passThousand() } }
  }

  private static func passThousand() async throws {
    let (client, server) = try await unixPair(waiting: 8)
    for round in 0..<1000 {
      try await client.write([1, 2, 3], passing: try readingEnd(after: UInt8(round & 255)))
      #expect(try await server.read(exactly: 3) == [1, 2, 3])
      let descriptor = try await server.takenDescriptor()
      #expect(descriptor.readByte() == UInt8(round & 255))
    }
    // Some descriptors that the server does not take.
    for _ in 0..<5 { try await client.write([1], passing: try readingEnd()) }
    #expect(try await server.read(exactly: 5).count == 5)
    await server.close()
    let none = await server.takeDescriptor() == nil
    #expect(none)
    await client.close()
  }

  @Test func `A connection that did not ask for descriptors gets the bytes, and none`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.passUnasked() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.passUnasked() } }
  }

  private static func passUnasked() async throws {
    let (client, server) = try await unixPair(waiting: 0)
    for _ in 0..<100 { try await client.write([1, 2], passing: try readingEnd()) }
    #expect(try await server.read(exactly: 200).count == 200)
    let none = await server.takeDescriptor() == nil
    #expect(none)
  }

  @Test func `Descriptors of writes that fail or are taken back are closed`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.failAndTakeBack() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.failAndTakeBack() } }
  }

  private static func failAndTakeBack() async throws {
    let (client, server) = try await unixPair()
    let ends = try pipeEnds()
    await expectError(.invalidArgument) { try await client.write([], passing: OwnedDescriptor(owning: ends.reading)) }
    let filling = Task.immediate { try await client.write(pattern(tooMuch)) }
    try await eventually("the way is full") { await client.status.unsentBytes > 0 }
    let waiting = Task.immediate { try await client.write([1], passing: OwnedDescriptor(owning: ends.writing)) }
    try await eventually("it waits") { await client.status.queuedWrites == 2 }
    waiting.cancel()
    await expectCancellation { try await waiting.value }
    let others = try pipeEnds()
    let failing = Task.immediate { try await client.write([1], passing: OwnedDescriptor(owning: others.reading)) }
    try await eventually("it waits") { await client.status.queuedWrites == 2 }
    await client.abort()
    await expectError(.closed) { try await failing.value }
    await expectError(.closed) { try await client.write([1], passing: OwnedDescriptor(owning: others.writing)) }
    await #expect(throws: SocketError.self) { try await filling.value }
    await server.abort()
  }

  @Test func `A duplicate of a descriptor keeps the file open`() throws {
    let ends = try pipeEnds()
    let reading = OwnedDescriptor(owning: ends.reading)
    let first = OwnedDescriptor(owning: ends.writing)
    let second = try OwnedDescriptor(duplicating: first.number)
    #expect(conformanceIsSimulated || fcntl(second.number, F_GETFD) & FD_CLOEXEC != 0)
    _ = consume first
    second.writeByte(3)
    #expect(reading.readByte() == 3)
    _ = consume second
    #expect(reading.readByte() == nil)
  }

  @Test(.inRealTime) func `A TCP socket passes none, and goes on`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    await expectError(.invalidArgument) { try await connection.write([1], passing: try readingEnd()) }
    try await connection.write([2])
    #expect(try await peer.receive(exactly: 1) == [2])
  }

  @Test func `A peer that passes more than may wait is not read from any more`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.passTooMany() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.passTooMany() } }
  }

  private static func passTooMany() async throws {
    let (client, server) = try await unixPair(serverWaiting: 3)
    for index in UInt8(0)..<6 { try await client.write([index], passing: try readingEnd(after: index)) }
    // The bytes that the first too many came with are the last.
    #expect(try await server.read(exactly: 4) == [0, 1, 2, 3])
    await expectError(.limitExceeded) { _ = try await server.read() }
    for index in UInt8(0)..<3 {
      let descriptor = try await server.takenDescriptor()
      #expect(descriptor.readByte() == index)
    }
    let none = await server.takeDescriptor() == nil
    #expect(none)
  }

  @Test(.inRealTime) func `A process without a free descriptor is told so, behind the bytes`() async {
    await #expect(processExitsWith: .success) {
      let (client, server) = try await unixPair()
      try await client.write([1])
      #expect(try await server.read() == [1])
      try await client.write([2], passing: try readingEnd())
      let before = setDescriptorLimit(3)
      #expect(try await server.read() == [2])
      await expectError(.tooManyOpenFiles) { _ = try await server.read() }
      setDescriptorLimit(before)
      let none = await server.takeDescriptor() == nil
      #expect(none)
    }
  }

  @Test(arguments: [1, 3, 64, 4096])
  func `A large read goes on past the places where descriptors came`(size: Int) async throws {
    let (client, server) = try await unixPair(waiting: 1000)
    let total = 200_000
    async let bytes = server.read(exactly: total)
    var sent = 0
    var passed = 0
    while sent < total {
      let count = min(total - sent, size * 100)
      if passed < 200 {
        try await client.write(pattern(count, from: sent), passing: try readingEnd())
        passed += 1
      } else {
        try await client.write(pattern(count, from: sent))
      }
      sent += count
    }
    #expect(try await bytes == pattern(total))
    for _ in 0..<passed { _ = try await server.takenDescriptor() }
  }
}
