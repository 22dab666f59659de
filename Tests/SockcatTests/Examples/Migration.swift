import ActorSockets
import ActorSocketsTLS

// Programs that were written for another library, as they are with this one. The articles about migration quote them.

/// Asks a server one question, and returns the line of its answer; `nil` if the server ends the connection.
func askServer(_ question: String, at server: Endpoint) async throws -> String? {
  let connection = try await TCPConnection.connect(to: server, timeout: .seconds(5))
  try await connection.write(utf8: question + "\r\n")
  let answer = try await connection.read(.line(ending: .crlf), timeout: .seconds(15))
  await connection.close()
  return answer
}

/// Sends every line back, until the task is cancelled. A client that is silent for 15 seconds is disconnected.
func echoLines(on listener: TCPListener) async throws {
  try await listener.serve { connection in
    for try await line in connection.messages(until: .crlf, timeout: .seconds(15)) {
      try await connection.write(line)
    }
  }
}

/// Fetches a page: its head through the empty line, then as many bytes as the head says.
func fetch(_ path: String, of host: String, from server: Endpoint) async throws -> [UInt8] {
  let connection = try await TCPConnection.connect(to: server, timeout: .seconds(10))
  try await connection.write(utf8: "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
  let head = try await connection.read(until: "\r\n\r\n", maximumLength: 16_384, timeout: .seconds(30))
  guard let length = contentLength(in: head), length <= 1 << 20 else { throw PageError() }
  let page = try await connection.read(exactly: length, timeout: .seconds(30))
  await connection.close()
  return page
}

struct PageError: Error {}

/// The number of bytes that follow the head of an HTTP message; `nil` if the head does not say.
func contentLength(in head: [UInt8]) -> Int? {
  for line in String(decoding: head, as: UTF8.self).split(separator: "\r\n") {
    let parts = line.split(separator: ":", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "content-length" else { continue }
    return Int(parts[1].filter { $0 != " " }).flatMap { $0 < 0 ? nil : $0 }
  }
  return nil
}

/// Sends every message back. Four bytes in front of a message have its length, the highest byte first.
func echoMessages(on listener: TCPListener) async throws {
  try await listener.serve { connection in
    for try await message in connection.messages(lengthPrefix: .uint32(.big), maximumLength: 1 << 20) {
      try await connection.write(message: message, lengthPrefix: .uint32(.big))
    }
  }
}

/// Encrypts a connection to a mail server. The server's certificate must be for `name`.
func encrypt(_ connection: TCPConnection, to name: String, _ context: TLSContext) async throws -> TLSConnection {
  try await connection.write(utf8: "STARTTLS\r\n")
  let answer = try await connection.read(until: .crlf, timeout: .seconds(30))
  guard answer.starts(with: "220".utf8) else { throw MailError.refused(String(decoding: answer, as: UTF8.self)) }
  let encrypted = connection.startTLS(context, as: .client(serverName: name))
  try await encrypted.handshake()
  return encrypted
}

/// Answers everybody who looks for the service, until the endpoint is closed.
func answerDiscovery(on endpoint: UDPEndpoint, as name: String) async throws {
  for try await datagram in endpoint.datagrams where datagram.bytes == Array("who is there?".utf8) {
    try await endpoint.send(datagram.reply(Array(name.utf8)))
  }
}

/// Asks the whole network, and collects the answers of two seconds.
func discover(port: UInt16) async throws -> [SocketAddress: String] {
  var configuration = UDPEndpoint.Configuration()
  configuration.broadcast = true
  return try await UDPEndpoint.withEndpoint(configuration: configuration) { endpoint in
    try await endpoint.send(Array("who is there?".utf8), to: .ipv4(.broadcast, port: port))
    let end = ContinuousClock.now + .seconds(2)
    var found: [SocketAddress: String] = [:]
    while found.count < 100, let answer = try await endpoint.receive(until: end) {
      if let sender = answer.remoteAddress { found[sender] = String(decoding: answer.bytes, as: UTF8.self) }
    }
    return found
  }
}

/// Reads a picture. As long as bytes arrive, it gets five more seconds, but at most a minute in total.
func readPicture(of length: Int, from connection: some ByteStream) async throws -> [UInt8] {
  let patience = Timeout.after(.seconds(5)) { elapsed, bytesDone in
    elapsed < .seconds(60) && bytesDone > 0 ? .seconds(5) : nil
  }
  return try await connection.read(exactly: length, timeout: patience)
}

/// Sends all bytes back, until the task is cancelled.
func echoBytes(on listener: TCPListener) async throws {
  try await listener.serve { connection in
    for try await bytes in connection.chunks { try await connection.write(bytes) }
  }
}

/// Sends a request, encrypted, and returns everything that the server sends until it ends the connection.
func request(_ text: String, from server: Endpoint, _ context: TLSContext) async throws -> [UInt8] {
  let connection = try await TLSConnection.connect(to: server, context: context, timeout: .seconds(10))
  try await connection.write(utf8: text)
  var answer: [UInt8] = []
  for try await bytes in connection.chunks(timeout: .seconds(30)) {
    answer += bytes
    if answer.count > 1 << 20 { throw PageError() }
  }
  await connection.close()
  return answer
}
