import ActorSockets
import ActorSocketsTLS

// The programs of the README and of the article about the first steps. Each is the body of a function here, and the beginning of a
// program there.

func serveLinesOnAPort() async throws {
  let listener = try TCPListener.bind(to: .port(7777))
  print("listening on", listener.localAddresses)

  try await listener.serve { connection in
    for try await line in connection.lines {
      try await connection.write(utf8: "you said: \(line)\n", timeout: .seconds(30))
    }
  }
}

func sayHello() async throws {
  let server = Endpoint.host("localhost", port: 7777)
  let connection = try await TCPConnection.connect(to: server, timeout: .seconds(5))

  try await connection.write(utf8: "hello\n")
  let answer = try await connection.read(until: .lf, timeout: .seconds(5))
  print(String(decoding: answer, as: UTF8.self), terminator: "")

  await connection.close()
}

func serveOverTLS() async throws {
  let identity = try TLSIdentity(certificateFile: "cert.pem", keyFile: "key.pem")
  let listener = try TCPListener.bind(to: .host("localhost", port: 7778))

  try await listener.serve(tls: TLSContext(TLSConfiguration(identity: identity))) { connection in
    try await connection.write(utf8: "only you can read this\n")
  }
}

func readOverTLS() async throws {
  let context = try TLSContext(TLSConfiguration(trustRoots: [.file("cert.pem")]))
  let secure = try await TLSConnection.connect(to: .host("localhost", port: 7778), context: context)

  let secret = try await secure.read(until: .lf, timeout: .seconds(5))
  print(String(decoding: secret, as: UTF8.self), terminator: "")
  await secure.close()
}

func echoDatagrams() async throws {
  let endpoint = try UDPEndpoint.bind(to: .host("localhost", port: 7779))

  for try await datagram in endpoint.datagrams {
    try await endpoint.send(datagram.reply(datagram.bytes))
  }
}

func echoLines() async throws {
  let listener = try TCPListener.bind(to: .port(7777))
  try await listener.serve { connection in
    for try await line in connection.lines {
      try await connection.write(utf8: line + "\n")
    }
  }
}

func fetch(_ process: ([UInt8]) -> Void) async throws {
  let connection = try await TCPConnection.connect(to: .host("example.com", port: 80), timeout: .seconds(10))
  try await connection.write(utf8: "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n")
  let status = try await connection.read(until: .crlf, timeout: .seconds(30))
  while let bytes = try await connection.read() {
    process(bytes)
  }
  await connection.close()
  print(String(decoding: status, as: UTF8.self))
}

func serveWithLimits() async throws {
  let listener = try TCPListener.bind(to: .port(7777))
  print("listening on", listener.localAddresses)
  let options = ServeOptions(limits: .init(connections: 500), drain: .within(.seconds(10)))
  let report = try await listener.serve(options) { connection in
    for try await line in connection.lines {
      try await connection.write(utf8: line.uppercased() + "\n", timeout: .seconds(30))
    }
  }
  print(report)
}

func answerMessages(of connection: TCPConnection) async throws {
  func reply(to message: [UInt8]) -> [UInt8] { message.reversed() }
  for try await message in connection.messages(lengthPrefix: .uint32(.big), maximumLength: 1 << 20) {
    try await connection.write(message: reply(to: message), lengthPrefix: .uint32(.big))
  }
}

extension ByteStream {
  func readRecord() async throws -> (kind: UInt8, body: [UInt8]) {
    let kind = try await readInteger(as: UInt8.self)
    let length = try await readInteger(as: UInt16.self)
    return (kind, try await read(exactly: Int(length), timeout: .seconds(10)))
  }
}

/// Adds up the bytes of records, each of which begins with its length.
struct RecordSizes {
  private(set) var total = 0

  /// Returns the length of the first record; 0 if it has not arrived yet.
  mutating func parse(_ bytes: Span<UInt8>, consumed: inout Int) throws -> Int {
    guard bytes.count > 0, bytes.count > Int(bytes[0]) else { return 0 }
    consumed = 1 + Int(bytes[0])
    total += Int(bytes[0])
    return Int(bytes[0])
  }
}

func parseRecords(of connection: TCPConnection, _ process: (Int) -> Void) async throws -> Int {
  var parser = RecordSizes()
  while true {
    let message = try await connection.withBytes(&parser) { parser, bytes, consumed in
      try parser.parse(bytes, consumed: &consumed)
    }
    guard let message else { break }
    process(message)
  }
  return parser.total
}

func ask(_ questions: [[UInt8]], on connection: TCPConnection, _ process: ([UInt8]) -> Void) async throws {
  let answers = questions.map { question in
    _ = connection.enqueueWrite(question)
    return connection.enqueueRead(.until(.crlf))
  }
  for answer in answers {
    process(try await answer.value)
  }
}

actor Room: ReactorActor {
  nonisolated let executor = ReactorExecutor(.shared)
  private var members: [UInt64: TCPConnection] = [:]

  func join(_ connection: TCPConnection) { members[connection.id] = connection }
  func leave(_ connection: TCPConnection) { members[connection.id] = nil }

  func say(_ text: [UInt8]) {
    for member in members.values { _ = member.enqueueWrite(text) }
  }
}
