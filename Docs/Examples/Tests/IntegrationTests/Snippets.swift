import ActorSockets
import ActorSocketsConfiguration
import ActorSocketsLifecycle
import ActorSocketsLogging
import ActorSocketsMetrics
import ActorSocketsNIO
import ActorSocketsObservers
import ActorSocketsTracing
import Configuration
import Logging
import NIOCore
import ServiceLifecycle

// The code that README.md quotes. It is compiled, so that it stays right. `ReadmeTests` compares both.

enum Snippets {
  static func observers(_ logger: Logger) {
    Reactor.shared.observer = Observers(LoggingObserver(logger), MetricsObserver(), TracingObserver())
  }

  static func logging() {
    Reactor.shared.observer = LoggingObserver(Logger(label: "sockets"))
  }

  static func metrics() {
    Reactor.shared.observer = MetricsObserver()
  }

  static func tracing(_ listener: TCPListener) async throws {
    let tracing = TracingObserver()
    Reactor.shared.observer = tracing
    try await listener.serve { connection in
      // Spans that begin in here are children of the connection's span.
      try await tracing.withContext(of: connection) {
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
      }
    }
  }

  static func lifecycle(_ logger: Logger) async throws {
    let server = ListenerService(try TCPListener.bind(to: .port(7777)), drainTime: .seconds(20)) { connection in
      for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
    }
    let group = ServiceGroup(services: [server], gracefulShutdownSignals: [.sigterm], logger: logger)
    try await group.run()
  }

  static func configuration() async throws {
    let config = ConfigReader(provider: EnvironmentVariablesProvider())
    let listener = try TCPListener.bind(
      to: try await Endpoint(from: config, at: "server.listen"),
      configuration: try await TCPListener.Configuration(from: config, at: "server"))
    let options = ServeOptions(
      limits: try await ServeLimits(from: config, at: "server.limits"),
      drain: try await Drain(from: config, at: "server.drain"))
    try await listener.serve(options) { connection in
      for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
    }
  }

  static func nio(_ listener: TCPListener) throws {
    let address = try NIOCore.SocketAddress(listener.localAddresses[0])
    print(address, try ActorSockets.SocketAddress(address))
  }
}
