import ActorSockets
import ActorSocketsTLS
import Glibc

/// A TLS server on ActorSockets, written as a user would write it.
@main
struct SwiftTLSEcho {
  static func main() async throws {
    guard let options = Options(CommandLine.arguments.dropFirst()) else {
      printError(
        "usage: swift-tls-echo --certificate FILE --key FILE [--on reactor|pool] [--mode echo|sink|source] [PORT]")
      exit(2)
    }
    var configuration = TLSConfiguration()
    configuration.identity = try TLSIdentity(certificateFile: options.certificate, keyFile: options.key)
    let context = try TLSContext(configuration)
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: options.port))
    for address in listener.localAddresses {
      printError("listening on \(address)")
    }
    let mode = options.mode
    try await listener.serve(tls: context, on: options.place) { connection in
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
  var certificate = ""
  var key = ""
  var mode = Mode.echo
  /// Where the handlers run.
  var place: HandlerPlace = .pool
  /// 0 lets the kernel choose.
  var port: UInt16 = 0

  init?(_ arguments: some Sequence<String>) {
    var remaining = arguments.makeIterator()
    while let argument = remaining.next() {
      switch argument {
      case "--certificate": certificate = remaining.next() ?? ""
      case "--key": key = remaining.next() ?? ""
      case "--mode":
        guard let mode = remaining.next().flatMap(Mode.init) else { return nil }
        self.mode = mode
      case "--on":
        switch remaining.next() {
        case "reactor": place = .reactor
        case "pool": place = .pool
        default: return nil
        }
      default:
        guard let number = UInt16(argument) else { return nil }
        port = number
      }
    }
    if certificate.isEmpty || key.isEmpty { return nil }
  }
}

/// Writes a line to standard error, unbuffered: the benchmark waits for it.
func printError(_ line: String) {
  var text = line + "\n"
  text.withUTF8 { bytes in
    _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count)
  }
}
