import ActorSockets

/// Receives the parts of a file, and asks for the next ones.
func download(_ parts: Int, from server: SocketAddress) async throws -> [Datagram] {
  var configuration = UDPEndpoint.Configuration()
  configuration.receiveOffload = true
  configuration.receiveBufferSize = 4 << 20
  let endpoint = try UDPEndpoint.bind(configuration: configuration)
  try await endpoint.connect(to: .address(server))
  var received: [Datagram] = []
  while received.count < parts {
    try await endpoint.send([UInt8(min(64, parts - received.count))])
    let deadline = Timeout.until(.now + .seconds(5))
    let wanted = min(parts, received.count + 64)
    while received.count < wanted {
      received += try await endpoint.receive(upTo: wanted - received.count, timeout: deadline)
    }
  }
  await endpoint.close()
  return received
}

/// Sends as many parts of 1,200 bytes as each request asks for.
func upload(_ part: [UInt8], on endpoint: UDPEndpoint) async throws {
  for try await request in endpoint.datagrams {
    let count = Int(request.bytes.first ?? 0)
    try await endpoint.send(Array(repeating: request.reply(part), count: count))
  }
}

/// Counts the lines that a peer sends, without a copy of their bytes.
func countLines(on connection: some ByteStream) async throws -> Int {
  var count = 0
  while true {
    let lines = try await connection.withBytes(timeout: .seconds(30)) { bytes, consumed in
      var lines = 0
      for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") { lines += 1 }
      consumed = bytes.count
      return lines
    }
    guard let lines else { return count }
    count += lines
  }
}

/// Sends a file behind a line with its length. The kernel moves the bytes from the file to the socket.
func sendFile(at path: String, to connection: some ByteStream) async throws {
  let file = try FileSource(path: path)
  let count = try file.count
  try await connection.write(utf8: "\(count)\n", timeout: .seconds(30))
  try await connection.sendFile(file, range: 0..<count, timeout: .seconds(300))
}

/// Returns how many jobs a reactor runs for each request, while `run` makes this number of requests.
func jobsPerRequest(_ count: Int, on reactor: Reactor, _ run: () async throws -> Void) async rethrows -> Double {
  let before = reactor.metrics.jobs
  try await run()
  return Double(reactor.metrics.jobs - before) / Double(count)
}
