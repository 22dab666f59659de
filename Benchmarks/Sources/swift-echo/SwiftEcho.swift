import ActorSockets
import Glibc

/// An echo server on ActorSockets, written as a user would write it.
@main
struct SwiftEcho {
  static func main() async throws {
    guard let options = Options(CommandLine.arguments.dropFirst()) else {
      printError("usage: swift-echo [--on reactor|pool] [PORT]")
      exit(2)
    }

    let listener = try TCPListener.bind(to: Endpoint(parsing: "127.0.0.1:\(options.port)"))
    for address in listener.localAddresses {
      printError("listening on \(address)")
    }
    _ = try await listener.serve(on: options.place) { connection in
      while let bytes = try await connection.read() {
        try await connection.write(bytes)
      }
    }
  }
}

/// What the command line asks for.
struct Options {
  /// Where the handlers run.
  var place: HandlerPlace = .pool
  /// 0 lets the kernel choose.
  var port: UInt16 = 0

  init?(_ arguments: some Sequence<String>) {
    var remaining = arguments.makeIterator()
    while let argument = remaining.next() {
      switch argument {
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
  }
}

/// Writes a line to standard error, unbuffered: the benchmark waits for it.
func printError(_ line: String) {
  var text = line + "\n"
  text.withUTF8 { bytes in
    _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count)
  }
}
