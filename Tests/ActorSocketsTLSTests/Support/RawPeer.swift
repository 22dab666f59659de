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

  /// Sends what the engine has made.
  func flush() throws {
    let output = engine.takeOutput()
    if !output.isEmpty { try socket.send(output) }
  }

  /// Sends a record whose last byte was changed on the way.
  func sendDamagedRecord() throws {
    engine.send([1, 2, 3])
    var record = engine.takeOutput()
    record[record.count - 1] ^= 1
    try socket.send(record)
  }

  /// Receives once.
  func receive() async throws {
    let bytes = try await socket.receive()
    if bytes.isEmpty { engine.takeEnd() } else { engine.take(bytes) }
  }
}
