import ActorSockets

extension Demo {
  func chat() async throws {
    let room = ChatRoom()
    try await serving(room.serve) { _, endpoint in
      var clients: [DemoClient] = []
      for number in 1...3 {
        let client = DemoClient(name: "guest\(number)", try await TCPConnection.connect(to: endpoint))
        try await say("guest\(number) connects, and reads: \(try await client.line())")
        for other in clients { try await say("\(other.name) reads: \(try await other.line())") }
        clients.append(client)
      }
      try await clients[0].connection.write(utf8: "Is anybody there?\n")
      try await say("guest1 writes: Is anybody there?")
      for other in clients.dropFirst() {
        let line = try await other.line()
        try await say("\(other.name) reads: \(line)")
        try check(line == "guest1: Is anybody there?", "the line was changed on its way")
      }
      for client in clients { await client.connection.close() }
    }
  }

  func messages() async throws {
    let prefix = LengthPrefix.uint32(.big)
    try await serving { connection in
      for try await message in connection.messages(lengthPrefix: prefix) {
        try await connection.write(message: message.reversed(), lengthPrefix: prefix)
      }
    } _: { _, endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      var answers = connection.messages(lengthPrefix: prefix).makeAsyncIterator()
      for text in ["stressed", "two\nlines", String(repeating: "long ", count: 10_000)] {
        let message = Array(text.utf8)
        try await connection.write(message: message, lengthPrefix: prefix)
        let answer = try await answers.next() ?? []
        let shown = text.count < 20 ? text.debugDescription : "\"\(text.prefix(15))…\""
        let back = String(decoding: answer.prefix(15), as: UTF8.self).debugDescription
        try await say("sent \(shown), \(message.count) bytes; it came back reversed: \(back)")
        try check(answer == message.reversed(), "the answer differs")
      }
      await connection.close()
    }
  }

  func pipelining() async throws {
    try await serving { connection in
      for try await number in connection.messages(ofLength: 4) {
        let value = number.reduce(0) { $0 << 8 | UInt32($1) }
        try await connection.write(bytes(of: value * value))
      }
    } _: { _, endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      let numbers: [UInt32] = [2, 3, 5, 7, 11]
      let start = ContinuousClock.now
      let answers = numbers.map { number in
        _ = connection.enqueueWrite(bytes(of: number))
        return connection.enqueueRead(.integer(UInt32.self))
      }
      let queued = start.duration(to: .now)
      try await say("queued 5 writes and 5 reads in \(microseconds(queued)), without waiting for any of them")
      var squares: [UInt32] = []
      for answer in answers { squares.append(try await answer.value) }
      let took = microseconds(start.duration(to: .now))
      try await say("asked for the squares of \(numbers); read \(squares) after \(took)")
      try check(squares == numbers.map { $0 * $0 }, "the answers are out of order")
      await connection.close()
    }
  }

  func timeout() async throws {
    try await serving { connection in
      try await connection.write(utf8: "The first half, ")
      // The second half is sent after the client's first read has timed out.
      _ = try await connection.read(until: .lf)
      try await connection.write(utf8: "and the second.\n")
    } _: { _, endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      do {
        _ = try await connection.read(until: .lf, timeout: .milliseconds(300))
        try check(false, "the read did not time out")
      } catch let error as SocketError {
        try await say("a read for a whole line, within 300 ms, fails: \(error)")
        try check(error.code == .timedOut, "the error differs")
      }
      try await say("the \(await connection.status.bufferedBytes) bytes that had arrived wait for the next read")
      try await connection.write(utf8: "go on\n")
      let line = String(decoding: try await connection.read(until: .lf), as: UTF8.self)
      try await say("the next read has all of it: \(line.debugDescription)")
      try check(line == "The first half, and the second.\n", "bytes were lost")
      await connection.close()
    }
  }

  func draining() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    async let served = listener.serve { connection in
      try await connection.write(utf8: "ready\n")
      let order = try await connection.read(until: .lf)
      try await connection.write([UInt8]("done: ".utf8) + order)
    }
    let endpoint = Endpoint.address(listener.localAddresses[0])
    var clients: [DemoClient] = []
    for name in ["ada", "bob", "the silent one"] {
      let client = DemoClient(name: name, try await TCPConnection.connect(to: endpoint))
      _ = try await client.line()
      clients.append(client)
    }
    let start = ContinuousClock.now
    await listener.drain(within: .milliseconds(400))
    try await say("three clients are being served; the server is told to stop within 400 ms")
    do {
      _ = try await TCPConnection.connect(to: endpoint)
      try check(false, "a new connection was accepted")
    } catch let error as SocketError {
      try await say("a fourth one is turned away: \(error)")
    }
    for client in clients.dropLast() {
      try await client.connection.write(utf8: "the order of \(client.name)\n")
      try await say("\(client.name), who had come before, is still served: \(try await client.line())")
      await client.connection.close()
    }
    let report = try await served
    let took = start.duration(to: .now) / .milliseconds(1)
    let counts = "\(report.finished) finished, \(report.failed) failed, \(report.aborted) aborted"
    try await say("it has stopped after \(Int(took)) ms; of \(report.accepted) connections: \(counts)")
    try check(report.finished == 2 && report.aborted == 1, "the report differs")
    await clients[2].connection.abort()
  }
}

private struct DemoClient {
  let name: String
  let connection: TCPConnection

  init(name: String, _ connection: TCPConnection) {
    self.name = name
    self.connection = connection
  }

  func line() async throws -> String { try await connection.read(.line()) ?? "(the end)" }
}

/// In network byte order.
private func bytes(of number: UInt32) -> [UInt8] {
  [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
}

private func microseconds(_ duration: Duration) -> String { "\(Int(duration / .microseconds(1))) µs" }
