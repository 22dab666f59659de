import ActorSockets

@testable import ActorSocketsTLS

/// One side of a connection without sockets: an engine, and what has become of it.
final class EngineEnd: CiphertextSink {
  var engine: TLSEngine
  var received: [UInt8] = []
  private(set) var isUp = false
  /// The peer said that no more comes.
  private(set) var hasEnded = false
  private(set) var failure: TLSError?
  /// The program's decision about the peer, when it is asked.
  var answer: Result<Void, TLSError> = .success(())
  /// The engine asked for input while it took none, or for room while there was room: it would never go on.
  private(set) var isStuck = false
  private var output: [UInt8] = []
  private var taken: (Int) -> Int = { $0 }

  init(_ context: TLSContext, _ role: TLSRole) throws(TLSError) { engine = try TLSEngine(context, as: role) }

  /// A client of `server.test` that has made its first message.
  init(greeting context: TLSContext) throws(TLSError) {
    engine = try TLSEngine(context, as: .client(serverName: "server.test"))
    take([])
  }

  /// The first message of a client of `server.test`.
  static func hello(of context: TLSContext) throws -> [UInt8] { try EngineEnd(greeting: context).takeOutput() }

  var session: TLSSession { engine.session }

  /// Takes bytes of the peer's in and goes as far as it gets.
  func take(_ bytes: [UInt8]) {
    var consumed = 0
    while failure == nil, !hasEnded, !isStuck {
      let goesOn = isUp ? read(bytes, &consumed) : handshake(bytes, &consumed)
      drain()
      if !goesOn { return }
    }
  }

  private func handshake(_ bytes: [UInt8], _ consumed: inout Int) -> Bool {
    switch engine.handshake() {
    case .done:
      isUp = true
    case .needsVerifier: engine.state.peerCheck.answer = answer
    case .needsOutput: isStuck = !engine.hasOutput
    case .needsInput:
      if consumed == bytes.count { return false }
      let count = engine.feed(bytes.span.extracting(consumed..<bytes.count))
      isStuck = count == 0
      consumed += count
    case .failed(let error): failure = error
    }
    return true
  }

  private func read(_ bytes: [UInt8], _ consumed: inout Int) -> Bool {
    switch engine.read(feeding: bytes.span, &consumed, appendingTo: &received) {
    case .needsInput:
      isStuck = consumed < bytes.count
      return false
    case .needsOutput: isStuck = !engine.hasOutput
    case .full: isStuck = true
    case .ended: hasEnded = true
    case .failed(let error): failure = error
    }
    return true
  }

  /// The peer's bytes have ended.
  func takeEnd() {
    engine.endInput()
    take([])
  }

  func send(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count, failure == nil, !isStuck {
      let count = write(Array(bytes[sent...])) { $0 }
      isStuck = count == 0
      sent += count
    }
  }

  /// Encrypts bytes as far as the ciphertext is taken, and returns how many bytes of plaintext that were.
  func write(_ bytes: [UInt8], taking taken: @escaping (Int) -> Int) -> Int {
    self.taken = taken
    let result = engine.write(bytes.span, to: self)
    switch result {
    case .success(let count): return count
    case .failure(let error):
      failure = error
      return 0
    }
  }

  func sendCiphertext(_ ciphertext: Span<UInt8>) -> Int {
    let count = taken(ciphertext.count)
    output.append(copying: ciphertext.extracting(first: count))
    return count
  }

  /// Goes on with the handshake until it is done or has failed.
  func handshake(over stream: any ByteStream) async throws {
    take([])
    while !isUp, failure == nil {
      try await stream.write(takeOutput())
      if let bytes = try await stream.read() { take(bytes) } else { takeEnd() }
    }
    try await stream.write(takeOutput())
  }

  /// A record whose last byte was changed on the way.
  func damagedRecord() -> [UInt8] {
    send([1, 2, 3])
    var record = takeOutput()
    record[record.count - 1] ^= 1
    return record
  }

  /// Says that no more comes.
  func finish() {
    engine.finishWriting()
    drain()
  }

  /// Takes out the bytes to send to the peer.
  func takeOutput() -> [UInt8] {
    drain()
    defer { output = [] }
    return output
  }

  private func drain() { output += engine.takeOutput() }
}

/// Two engines face to face.
final class EnginePair {
  enum Direction { case toServer, toClient }

  let client: EngineEnd
  let server: EngineEnd

  init(client: TLSContext, server: TLSContext) throws(TLSError) {
    self.client = try EngineEnd(client, .client(serverName: "server.test"))
    self.server = try EngineEnd(server, .server)
  }

  /// A pair after its handshake.
  static func up(_ version: TLSVersion) throws -> EnginePair {
    let pair = try EnginePair(client: Contexts.client(version), server: Contexts.server(version))
    pair.exchange()
    return pair
  }

  /// Carries bytes over, in both directions, until neither has any. `wire` returns the pieces in which a flight arrives.
  func exchange(_ wire: (Direction, [UInt8]) -> [[UInt8]] = { [$1] }) {
    client.take([])
    server.take([])
    while true {
      let (toServer, toClient) = (client.takeOutput(), server.takeOutput())
      if toServer.isEmpty, toClient.isEmpty { return }
      if !toServer.isEmpty { for piece in wire(.toServer, toServer) { server.take(piece) } }
      if !toClient.isEmpty { for piece in wire(.toClient, toClient) { client.take(piece) } }
    }
  }

  /// Whether both are up and neither has failed.
  var isUp: Bool { client.isUp && server.isUp && client.failure == nil && server.failure == nil }
}

/// The bytes `start`, `start + 1`, … modulo 251: a loss, a repetition or a swap anywhere shows.
func pattern(_ count: Int, from start: Int = 0) -> [UInt8] {
  var bytes = Array(patternBlock[(start % 251)...].prefix(count))
  bytes.reserveCapacity(count)
  while bytes.count < count { bytes += patternBlock.prefix(count - bytes.count) }
  return bytes
}

private let patternBlock = (0..<(251 * 200)).map { UInt8($0 % 251) }
