import ActorSockets
let listener = try TCPListener.bind(to: Endpoint(parsing: "127.0.0.1:0"))
print(listener.localAddresses)
let server = Task { try await listener.serve(on: .reactor, drain: .within(.seconds(1))) { connection in
  while let bytes = try await connection.read() { try await connection.write(bytes) }
} }
let c = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
try await c.write(utf8: "hello\nworld\r\n")
for try await line in c.lines { print(line); if line == "world" { try await c.finishWriting() } }
print(await c.status, c.description)
await c.close()
print(try await c.closed)
server.cancel()
print(try await server.value)
