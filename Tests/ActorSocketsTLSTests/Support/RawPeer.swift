import ActorSockets
import TestSupport

@testable import ActorSocketsTLS

/// A TLS engine on a blocking socket, so that a test can see and change each byte that it sends.
final class RawPeer {
  let engine: EngineEnd
  let socket: RawSocket

  init(_ context: TLSContext, _ role: TLSRole, on socket: RawSocket) throws {
    engine = try EngineEnd(context, role)
    self.socket = socket
  }

  /// A client of the server at this port of the loopback address.
  convenience init(_ context: TLSContext, to port: UInt16) throws {
    try self.init(
      context, .client(serverName: "server.test"), on: .connected(to: .ipv4(.loopback, port: port)))
  }

  /// Goes on with the handshake until it is done or has failed.
  func handshake() async throws {
    engine.take([])
    while true {
      try flush()
      if engine.isUp || engine.failure != nil { return }
      try await receive()
    }
  }

  func flush() throws {
    let output = engine.takeOutput()
    if !output.isEmpty { try socket.send(output) }
  }

  /// Sends a record whose last byte was changed on the way.
  func sendDamagedRecord() throws { try socket.send(engine.damagedRecord()) }

  func send(_ bytes: [UInt8]) throws {
    engine.send(bytes)
    try flush()
  }

  /// Sends the first message, and receives the beginning of the answer.
  func beginHandshake() async throws {
    engine.take([])
    try flush()
    try await receive()
  }

  /// Says that no more comes.
  func finish() throws {
    engine.finish()
    try flush()
  }

  /// Receives until the peer has ended, or has failed.
  func receiveToEnd() async throws { while !engine.hasEnded, engine.failure == nil { try await receive() } }

  func receive() async throws {
    let bytes = try await socket.receive()
    if bytes.isEmpty { engine.takeEnd() } else { engine.take(bytes) }
  }
}
