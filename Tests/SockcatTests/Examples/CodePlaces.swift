import ActorSockets
import Foundation

/// Answers lines. The handlers run on Swift's pool, so they may compute.
func serveOnPool(_ listener: TCPListener) async throws {
  try await listener.serve { connection in
    for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
  }
}

/// Answers lines. The handlers run on the thread of their sockets, so they must be short between their calls.
func serveOnReactor(_ listener: TCPListener) async throws {
  try await listener.serve(.init(on: .reactor)) { connection in
    for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
  }
}

/// Answers lines. Each handler is isolated to its connection, so its calls change neither the thread nor the isolation.
func serveIsolated(_ listener: TCPListener) async throws {
  try await listener.serve { (connection: isolated TCPConnection) in
    for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
  }
}

/// Counts lines, on the thread of the sockets. Handlers on the reactor call it without changing threads.
actor LineCounter: ReactorActor {
  nonisolated let executor = ReactorExecutor(.shared)
  private(set) var count = 0

  func add() { count += 1 }
}

/// Runs code that blocks on a thread of its own, so that it holds up neither a reactor nor the pool.
func blocking<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
  }
}

/// Answers each line with the contents of the file that it names. Reading a file blocks.
func serveFiles(_ listener: TCPListener, in folder: URL) async throws {
  try await listener.serve { connection in
    for try await name in connection.lines where !name.contains("/") {
      let contents = try await blocking { try Data(contentsOf: folder.appending(path: name)) }
      try await connection.write(contents)
    }
  }
}
