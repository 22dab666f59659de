import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// A server under test on manual time: nothing in it ends because time passes.
struct Served: Sendable {
  let time = ManualTime()
  let listener: any StreamListener
  let serving: Task<ServeReport, any Error>
  private let begun = Notes<UInt64>()

  /// How many handlers have begun.
  var handled: Int { begun.all.count }

  init(
    _ make: (Reactor) throws -> any StreamListener, on place: HandlerExecutor = .pool, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(100)),
    _ handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void
  ) throws {
    let listener = try make(time.reactor)
    self.listener = listener
    serving = Task { [begun] in
      try await listener.serveAny(on: place, limits: limits, drain: drain) { connection in
        begun.add(connection.id)
        try await handler(connection)
      }
    }
  }

  /// A client whose handler has begun.
  func client() async throws -> Client {
    let count = handled
    let client = try await listener.client()
    try await eventually("its handler runs") { handled > count }
    return client
  }

  /// Begins the drain, and waits until the listener has done so.
  func beginDraining() async {
    serving.cancel()
    // This call runs after the calls that the cancellation submitted.
    await expectError(.closed) { _ = try await listener.accept() }
  }

  /// Echoes lines.
  @Sendable static func answerLines(_ connection: any ByteStream) async throws {
    for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
  }
}

extension Task where Success == ServeReport, Failure == any Error {
  /// Ends the server whose task this is.
  func stop() async throws -> ServeReport {
    cancel()
    return try await value
  }
}
