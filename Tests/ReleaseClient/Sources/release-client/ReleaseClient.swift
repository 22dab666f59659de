import ActorSockets

/// Counts lines, on the reactor like the connections that it counts for: an actor of the user's own.
actor LineCounter: ReactorActor {
  nonisolated let executor = ReactorExecutor(.shared)
  private var count = 0

  func add(_ line: String) -> Int {
    count += 1
    return count
  }
}

struct Failure: Error, CustomStringConvertible {
  let description: String
}

func expect<Value: Equatable>(_ value: Value, _ expected: Value, _ what: String) throws {
  if value != expected { throw Failure(description: "\(what): \(value) instead of \(expected)") }
}

/// Uses what clients use, built as they build it.
@main
struct ReleaseClient {
  static func main() async throws {
    for place in [HandlerExecutor.pool, .reactor] {
      let report = try await roundTrip(place)
      try expect(report.finished, 1, "connections served")
      try await encryptedRoundTrip(place)
    }
    print("release-client: the round trips are right")
  }

  /// A server of numbered lines, and a client that asks it in every way there is.
  static func roundTrip(_ place: HandlerExecutor) async throws -> ServeReport {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let counter = LineCounter()
    let server = Task {
      try await listener.serve(.init(drain: .within(.seconds(5)), on: place)) { connection in
        for try await line in connection.lines {
          let number = await counter.add(line)
          try await connection.write(utf8: "\(number) \(line)\r\n", timeout: .seconds(5))
        }
      }
    }
    let connection = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), timeout: .seconds(5))

    try await connection.write(utf8: "awaited\n")
    try expect(try await connection.read(until: .crlf, timeout: .seconds(5)), Array("1 awaited\r\n".utf8), "a line")

    let replies = (2...4).map { number in
      _ = connection.enqueueWrite(Array("enqueued \(number)\n".utf8))
      return connection.enqueueRead(.until(.crlf))
    }
    for (number, reply) in zip(2..., replies) {
      try expect(try await reply.value, Array("\(number) enqueued \(number)\r\n".utf8), "an enqueued line")
    }

    try await connection.write(contentsOf: [Array("shown ".utf8), Array("not copied\n".utf8)])
    try await connection.finishWriting()
    let length = try await connection.withBytes { bytes, consumed -> Int in
      if bytes[bytes.count - 1] == 10 { consumed = bytes.count }
      return bytes.count
    }
    try expect(length, "5 shown not copied\r\n".utf8.count, "bytes shown")
    try expect(try await connection.read(), nil, "the end of the stream")

    await connection.close()
    server.cancel()
    return try await server.value
  }
}
