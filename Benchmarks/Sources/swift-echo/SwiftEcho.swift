import ActorSockets
import Glibc

/// An echo server on ActorSockets, written as a user would write it.
@main
struct SwiftEcho {
  static func main() async throws {
    guard let options = Options(CommandLine.arguments.dropFirst()) else {
      printError("usage: swift-echo [--on reactor|pool] [--reactors N [--shared-port]] [--report] [PORT]")
      exit(2)
    }
    if options.sharesPort {
      try await servePortOfEachReactor(options)
    } else {
      let listener = try TCPListener.bind(to: options.endpoint)
      announce(listener)
      try await serve(listener, options, reactors: options.reactors)
    }
  }

  /// A listener for each reactor, all at one port: the kernel spreads the connections.
  private static func servePortOfEachReactor(_ options: Options) async throws {
    var configuration = TCPListener.Configuration()
    configuration.reusePort = true
    let first = try TCPListener.bind(to: options.endpoint, configuration: configuration)
    let endpoint = try Endpoint(parsing: "\(first.localAddresses[0])")
    let others = try (1..<options.reactors).map { _ in
      try TCPListener.bind(to: endpoint, configuration: configuration, reactor: Reactor())
    }
    announce(first)
    try await withThrowingTaskGroup { group in
      for listener in [first] + others {
        group.addTask { try await serve(listener, options, reactors: 1) }
      }
      try await group.waitForAll()
    }
  }

  private static func serve(_ listener: TCPListener, _ options: Options, reactors: Int) async throws {
    try await listener.serve(
      choosing: { connection in
        if options.reports { printError("accepted \(ObjectIdentifier(connection.executor.reactor))") }
        return options.place == .pool ? nil : connection.executor.reactor
      }, reactors: reactors
    ) { connection in
      while let bytes = try await connection.read() {
        try await connection.write(bytes)
      }
    }
  }

  private static func announce(_ listener: TCPListener) {
    for address in listener.localAddresses {
      printError("listening on \(address)")
    }
  }
}

/// What the command line asks for.
struct Options {
  /// Where the handlers run.
  var place: HandlerPlace = .pool
  var reactors = 1
  /// Each reactor has a listener of its own, at the same port.
  var sharesPort = false
  /// Says of each connection which reactor got it.
  var reports = false
  /// 0 lets the kernel choose.
  private var port: UInt16 = 0

  var endpoint: Endpoint { .host("127.0.0.1", port: port) }

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
      case "--reactors":
        guard let count = remaining.next().flatMap({ Int($0) }), count > 0 else { return nil }
        reactors = count
      case "--shared-port": sharesPort = true
      case "--report": reports = true
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
