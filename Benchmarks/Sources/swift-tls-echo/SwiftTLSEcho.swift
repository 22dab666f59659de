import ActorSockets
import ActorSocketsTLS
import ServerSupport

/// A TLS server on ActorSockets, written as a user would write it.
@main
struct SwiftTLSEcho {
  static func main() async throws {
    let options = Options()
    var configuration = TLSConfiguration()
    configuration.identity = try TLSIdentity(certificateFile: options.certificate, keyFile: options.key)
    let context = try TLSContext(configuration)
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: options.port))
    for address in listener.localAddresses {
      printError("listening on \(address)")
    }
    let mode = options.mode
    try await listener.serve(tls: context, .init(on: options.place)) { connection in
      switch mode {
      case .echo: try await echo(connection)
      case .sink: try await discard(connection)
      case .source: try await sendBlocks(connection)
      }
    }
  }
}

private func echo(_ connection: TLSConnection) async throws {
  while let bytes = try await connection.read() {
    try await connection.write(bytes)
  }
}

private func discard(_ connection: TLSConnection) async throws {
  while (try await connection.withBytes { bytes, consumed in consumed = bytes.count }) != nil {}
}

/// From the first byte on, until the peer has enough.
private func sendBlocks(_ connection: TLSConnection) async throws {
  guard try await connection.read() != nil else { return }
  // Byte i of every block is i modulo 251: the load generator compares.
  let block = (0..<16384).map { UInt8($0 % 251) }
  while true {
    try await connection.write(block)
  }
}

/// What is done with the bytes of a connection.
enum Mode: String {
  case echo, sink, source
}

/// What the command line asks for.
struct Options {
  let certificate: String
  let key: String
  let mode: Mode
  /// Where the handlers run.
  let place: HandlerExecutor
  /// 0 lets the kernel choose.
  let port: UInt16

  init() {
    var arguments = Arguments(
      usage: "swift-tls-echo --certificate FILE --key FILE [--on reactor|pool] [--mode echo|sink|source] [PORT]")
    certificate = arguments.take("--certificate")
    key = arguments.take("--key")
    mode = arguments.take("--mode", or: .echo)
    place = arguments.take("--on", or: .pool) { ["reactor": .reactor, "pool": .pool][$0] }
    port = arguments.port()
  }
}
