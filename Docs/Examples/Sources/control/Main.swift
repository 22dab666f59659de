import ActorSockets

@main struct Main {
  static func main() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    switch (arguments.first, arguments.count) {
    case ("serve", 3): try await serve(on: try Endpoint(parsing: arguments[1]), controlledAt: arguments[2])
    case ("status", 2): print(try await ask("status", at: arguments[1]) ?? "no answer")
    case ("publish", 3): print(try await ask("publish", at: arguments[1], passing: arguments[2]) ?? "no answer")
    default: print("usage: control serve HOST:PORT SOCKET | control status SOCKET | control publish SOCKET FILE")
    }
  }

  /// Serves clients and the control socket. SIGTERM drains both.
  private static func serve(on endpoint: Endpoint, controlledAt path: String) async throws {
    let publisher = Publisher()
    let clients = try TCPListener.bind(to: endpoint)
    let control = try TCPListener.bind(to: .unix(path: path), configuration: Publisher.controlConfiguration)
    try await withThrowingTaskGroup { group in
      group.addTask {
        _ = try await clients.serve(stopOn: [.terminate, .interrupt]) { try await publisher.send(to: $0) }
      }
      group.addTask {
        _ = try await control.serve(stopOn: [.terminate, .interrupt]) { try await publisher.answer($0) }
      }
      while try await group.next() != nil {}
    }
  }
}
