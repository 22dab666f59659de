import ActorSockets
import TestSupport

enum QueuePeer {
  struct Arrived: Sendable {
    var messages: [Int] = []
    var isCut = false
  }

  /// Sends the stream and receives messages, until the client finishes, or the connection ends.
  static func use(
    _ server: any ByteStream, until isOver: Gate, seed: UInt64, largestPiece: UInt64,
    pause: @escaping @Sendable (Duration) async throws -> Void
  ) async throws -> Arrived {
    async let sent: Void = send(on: server, until: isOver, seed, largestPiece, pause)
    var arrived = Arrived()
    do {
      while let header = try await server.read(.message(ofLength: 6)) {
        let (id, count) = QueueModel.parse(header)
        let body = try await server.read(exactly: count)
        if body != QueueModel.stream(count, from: id) { throw QueueModel.Violation("message \(id) is torn") }
        arrived.messages.append(id)
        // Sometimes the writes have to wait.
        if id % 512 == 0 { try await pause(.seconds(3)) }
      }
    } catch let error as SocketError where [.endOfStream, .connectionReset, .closed].contains(error.code) {
      arrived.isCut = true
    }
    await sent
    return arrived
  }

  private static func send(
    on server: any ByteStream, until isOver: Gate, _ seed: UInt64, _ largest: UInt64,
    _ pause: (Duration) async throws -> Void
  ) async {
    if largest == 0 {
      await isOver.wait()
      try? await server.finishWriting()
      return
    }
    var random = SeededRandom(seed: ~seed)
    var position = 0
    // Sometimes reads wait for bytes, and sometimes bytes wait for reads.
    var most: UInt64 = 1 << (seed % largest)
    do {
      while !isOver.isOpen {
        if random.next() % 50 == 0 { most = 1 << (random.next() % largest) }
        let count = 1 + Int(random.next() % most)
        try await server.write(QueueModel.stream(count, from: position))
        position += count
        try await pause(.milliseconds(Int64(random.next() % 20)))
      }
      try await server.finishWriting()
    } catch {
      // The connection has ended.
    }
  }
}
