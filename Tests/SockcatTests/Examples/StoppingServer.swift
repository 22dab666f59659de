import ActorSockets
import ActorSocketsTLS

/// Answers lines until SIGTERM or SIGINT comes, and then for as long as the drain lasts.
func serveUntilSignalled(_ listener: TCPListener) async throws -> ServeReport {
  try await listener.serve(.init(drain: .within(.seconds(20)), stopOn: [.terminate, .interrupt])) { connection in
    for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
  }
}

/// Answers health checks with "stopping" for 10 seconds after the signal, and accepts connections meanwhile. Then it drains.
func serveBehindLoadBalancer(_ listener: TCPListener) async throws -> ServeReport {
  let drain = Drain.within(.seconds(20), idleConnectionGrace: .seconds(5), notice: .seconds(10))
  return try await listener.serve(.init(drain: drain, stopOn: [.terminate])) { connection in
    for try await line in connection.lines {
      let isCheck = line.utf8.elementsEqual("health".utf8)
      try await connection.write(utf8: isCheck ? connection.isDraining ? "stopping\n" : "healthy\n" : line + "\n")
    }
  }
}

/// Serves plain and encrypted connections, at most 1,000 together. SIGTERM drains both listeners. If one of them breaks, the other drains
/// too.
func serve(_ plain: TCPListener, _ encrypted: TCPListener, _ context: TLSContext) async throws -> ServeReport {
  try await [
    ServedListener(plain) { try await answerLines($0) },
    ServedListener(encrypted, tls: context) { try await answerLines($0) },
  ].serve(ServeOptions(limits: .init(connections: 1_000), stopOn: [.terminate]))
}

/// Answers lines on a connection of any kind.
func answerLines(_ connection: some ByteStream) async throws {
  for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
}

/// Sends events until the server stops, and then says goodbye.
func sendEvents(_ events: AsyncStream<String>, to connection: TCPConnection) async throws {
  try await withThrowingTaskGroup { group in
    group.addTask { for await event in events { try await connection.write(utf8: event + "\n") } }
    group.addTask { try await connection.waitUntilDraining() }
    try await group.next()
    group.cancelAll()
  }
  if connection.isDraining { try await connection.write(utf8: "The server stops.\n") }
}

/// Serves, and hands the errors of handlers to a logger of the program's own.
func serve(
  _ listener: TCPListener, logging log: @escaping @Sendable (String) -> Void
) async throws -> ServeReport {
  var options = ServeOptions()
  // A peer that disconnected or sent too much needs no log entry.
  options.onFailure = { failure in if !failure.isCausedByPeer { log("\(failure)") } }
  return try await listener.serve(options) { connection in
    let name = try await connection.read(until: .lf, maximumLength: 100)
    try await connection.write(try greeting(for: name))
  }
}

struct UnknownName: Error {}

func greeting(for name: [UInt8]) throws -> [UInt8] {
  if name == Array("nobody\n".utf8) { throw UnknownName() }
  return Array("hello ".utf8) + name
}
