import ActorSockets
import ExampleSupport
import Foundation

@testable import RedisClient

extension Tool {
  static let redisServer = Tool("redis-server")
  static let redisClient = Tool(example: "RedisClient")
  static let redisCLI = Tool("redis-cli", package: "redis-tools")
}

/// A redis-server that stores nothing on disk. It is killed with its last reference.
actor RedisServer {
  nonisolated let folder: Folder
  nonisolated let endpoint: Endpoint
  private let options: [String]
  private var program: Program?

  /// Starts a server on a unix socket, or on a port of 127.0.0.1.
  init(onPort: Bool = false, options: [String] = []) async throws {
    folder = try Folder()
    self.options = options
    var complaint = ""
    // Another program may take the port before the server does.
    for _ in 0..<(onPort ? 10 : 1) {
      var endpoint = Endpoint.unix(path: folder.file("redis"))
      if onPort {
        let probe = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
        endpoint = .address(probe.localAddresses[0])
        await probe.close()
      }
      let program = try await Self.start(endpoint, folder, options)
      if await program.output.wait(until: {
        $0.contains("Ready to accept connections") || $0.contains("ready to accept")
      }) {
        self.endpoint = endpoint
        self.program = program
        return
      }
      complaint = await program.everything
    }
    throw Overdue(description: "redis-server does not start: \(complaint)")
  }

  private static func start(_ endpoint: Endpoint, _ folder: Folder, _ options: [String]) async throws -> Program {
    let place =
      switch endpoint {
      case .unix(let path): ["--port", "0", "--unixsocket", path]
      case .address(let address): ["--port", "\(address.port ?? 0)", "--bind", "127.0.0.1"]
      case .host(_, let port): ["--port", "\(port)"]
      }
    return try Program(
      .redisServer, place + ["--save", "", "--appendonly", "no", "--dir", folder.path, "--daemonize", "no"] + options)
  }

  /// Kills the server, which loses all data.
  func stop() async {
    await program?.kill(SIGKILL)
    _ = await program?.output.whole
    program = nil
  }

  /// Starts it again in the same place.
  func restart() async throws {
    await stop()
    let new = try await Self.start(endpoint, folder, options)
    program = new
    if await new.output.wait(until: { $0.contains("ready to accept") || $0.contains("Ready to accept") }) { return }
    throw Overdue(description: "redis-server does not start again: \(await new.everything)")
  }

  /// Returns a client that tries often to connect.
  nonisolated func client(_ change: (inout RedisClient.Configuration) -> Void = { _ in }) -> RedisClient {
    var configuration = RedisClient.Configuration()
    configuration.retry.maximumTries = 1000
    configuration.retry.maximumDelay = .milliseconds(50)
    change(&configuration)
    return RedisClient(endpoint, configuration: configuration)
  }

  /// Runs redis-cli.
  nonisolated func cli(_ words: String...) async throws -> String {
    let place =
      switch endpoint {
      case .unix(let path): ["-s", path]
      case .address(let address): ["-p", "\(address.port ?? 0)"]
      case .host(_, let port): ["-p", "\(port)"]
      }
    return try await Program.run(.redisCLI, place + words)
  }
}
