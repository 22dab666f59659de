import ActorSockets

/// An error that the server answered with, or an answer that does not fit to the command.
enum RedisError: Error, Hashable, CustomStringConvertible {
  /// The server's error, for example `WRONGTYPE Operation against a key holding the wrong kind of value`.
  case server(String)
  /// A reply of another type than the command has.
  case unexpected(RESPValue)

  var description: String {
    switch self {
    case .server(let message): message
    case .unexpected(let value): "unexpected reply: \(value)"
    }
  }
}

/// A client for one Redis server. Any number of tasks may use it at the same time: their commands share one connection.
///
/// The client pipelines: it sends a command at once, although earlier ones have no reply yet. The server answers in the order of the
/// commands. So the client only has to enqueue each write and its read in the same order, which the actor guarantees.
///
/// The client connects with the first command, and again with the first command after the connection was lost. Connecting is tried
/// several times, and commands wait meanwhile.
actor RedisClient {
  struct Configuration: Sendable {
    var password: String?
    var user: String?
    var database = 0
    /// How long a command may take, from the call to its reply, with connecting.
    var timeout: Duration = .seconds(30)
    /// How connecting is repeated.
    var retry = TCPConnection.Retry()
    /// The largest number of bytes of commands that wait to be sent. The connection is aborted if there are more, because the server
    /// is too slow then.
    var writeBudget = 64 << 20

    /// The settings for a connection of commands.
    var connection: TCPConnection.Configuration {
      var configuration = TCPConnection.Configuration()
      configuration.retry = retry
      configuration.connectTimeout = timeout
      configuration.writeBudget = writeBudget
      // After a reply that did not come in time, and after a command that was not sent, the client could not tell which command the
      // next reply belongs to. So the connection ends.
      configuration.onTimeout = .close
      configuration.onWriteOverflow = .abort
      return configuration
    }

    /// The commands at the beginning of each connection.
    var greeting: [RedisCommand] {
      var commands: [RedisCommand] = []
      if let password {
        commands.append(RedisCommand("AUTH", [user, password].compactMap { $0.map { Array($0.utf8) } }))
      }
      if database != 0 { commands.append(RedisCommand("SELECT", "\(database)")) }
      return commands
    }
  }

  nonisolated let server: Endpoint
  nonisolated let configuration: Configuration
  private var connection: TCPConnection?
  /// The replies to the commands at the beginning of the connection.
  private var greeting: Task<Void, any Error>?
  private var isClosed = false

  init(_ server: Endpoint, configuration: Configuration = .init()) {
    self.server = server
    self.configuration = configuration
  }

  // MARK: Commands of all kinds

  /// Sends a command, and waits for its reply.
  ///
  /// If the connection is lost before the reply has arrived, it is not known whether the server has carried out the command. A command
  /// that only reads is then sent once more; for others the error is thrown.
  ///
  /// *Cancellation*: a task that is cancelled stops waiting. The command is carried out nevertheless.
  ///
  /// - Parameter command: The command.
  /// - Returns: The reply.
  /// - Throws: `RedisError.server`; `SocketError` if the server cannot be reached or does not answer in time; `CancellationError`.
  func send(_ command: RedisCommand) async throws -> RESPValue {
    do {
      return try await enqueue([command])[0].value()
    } catch let error as SocketError where command.isRepeatable && error.endsConnection && !isClosed {
      return try await enqueue([command])[0].value()
    }
  }

  /// Sends commands together, so that they take one round trip, and waits for all replies. The commands of other tasks may be carried out
  /// between them, unless they are within MULTI and EXEC.
  ///
  /// - Parameter commands: The commands.
  /// - Returns: The replies, in the order of the commands. Errors of the server are replies here.
  /// - Throws: `SocketError` if the connection is lost before all replies have arrived; `CancellationError`.
  func send(_ commands: [RedisCommand]) async throws -> [RESPValue] {
    var values: [RESPValue] = []
    for reply in try enqueue(commands) {
      do {
        values.append(try await reply.value())
      } catch RedisError.server(let message) {
        values.append(.error(message))
      }
    }
    return values
  }

  /// Sends commands as a transaction: MULTI, the commands, EXEC. The server carries them out without commands of other clients between
  /// them. If one of them is not valid, the server carries out no command.
  ///
  /// - Parameter commands: The commands.
  /// - Returns: The replies, in the order of the commands.
  /// - Throws: `RedisError.server` if a command is not valid, so that no command was carried out; the errors of ``send(_:)``.
  func transaction(_ commands: [RedisCommand]) async throws -> [RESPValue] {
    guard !commands.isEmpty else { return [] }
    let replies = try await send([RedisCommand("MULTI")] + commands + [RedisCommand("EXEC")])
    switch replies.last {
    case .array(let results)?: return results
    case .error(let message)?: throw RedisError.server(message)
    default: throw RedisError.unexpected(replies.last ?? .null)
    }
  }

  /// Waits for the replies to the commands that were sent, and closes the connection. Later commands throw.
  func close() async {
    isClosed = true
    await connection?.close(after: .pendingReadsAndWrites)
    connection = nil
  }

  // MARK: The connection

  /// Puts commands into the queue of the connection. There is no suspension in this method, so nothing comes between a command and the
  /// read of its reply.
  private func enqueue(_ commands: [RedisCommand]) throws -> [RedisReply] {
    if isClosed { throw SocketError(.closed, operation: "send", detail: "the client is closed") }
    let connection = connected()
    return commands.map { enqueue($0, on: connection, after: greeting) }
  }

  private func enqueue(
    _ command: RedisCommand, on connection: TCPConnection, after greeting: Task<Void, any Error>?
  ) -> RedisReply {
    RedisReply(to: command, on: connection, after: greeting, timeout: configuration.timeout) { [weak self] in
      await self?.drop(connection)
    }
  }

  /// Returns the connection. Begins a new one if the client has not connected yet, or if the connection has ended. It does not wait:
  /// commands queue until the new connection is up.
  private func connected() -> TCPConnection {
    if let connection, !connection.hasPeerFinished { return connection }
    let new = TCPConnection(to: server, configuration: configuration.connection)
    connection = new
    let replies = configuration.greeting.map { enqueue($0, on: new, after: nil) }
    greeting = replies.isEmpty ? nil : Task { for reply in replies { _ = try await reply.value() } }
    return new
  }

  /// Ends a connection on which a command has failed. The commands behind it fail, too, because their replies have lost their places.
  private func drop(_ old: TCPConnection) async {
    if connection === old { connection = nil }
    await old.abort()
  }
}

/// The reply to a command that is in the queue of a connection.
private struct RedisReply: Sendable {
  private let outcome: AsyncStream<Result<RESPValue, any Error>>

  /// Enqueues a command and the read of its reply.
  ///
  /// - Parameters:
  ///   - command: The command.
  ///   - connection: The connection.
  ///   - greeting: The commands before it, without which it is of no use.
  ///   - timeout: How long the reply may take, from now.
  ///   - failed: Called if there is no reply.
  init(
    to command: RedisCommand, on connection: TCPConnection, after greeting: Task<Void, any Error>?, timeout: Duration,
    failed: @escaping @Sendable () async -> Void
  ) {
    var bytes: [UInt8] = []
    command.append(to: &bytes)
    // Only the read needs an outcome: if the write fails, the connection ends, and the read fails, too.
    _ = connection.enqueueWrite(bytes)
    let pending = connection.enqueueRead(.reply, timeout: .within(timeout))
    // A cancelled task that waits for `pending.value` takes the read out of the queue, and its reply would go to the next command. So
    // another task waits, which is never cancelled.
    let (stream, continuation) = AsyncStream.makeStream(of: Result<RESPValue, any Error>.self)
    outcome = stream
    Task {
      do {
        guard let value = try await pending.value else {
          throw SocketError(.endOfStream, operation: "read", detail: "the server ended the connection")
        }
        // With a wrong password the server answers every command with an error. The reply to the password says why.
        try await greeting?.value
        if case .error(let message) = value { throw RedisError.server(message) }
        continuation.yield(.success(value))
      } catch {
        if error is SocketError { await failed() }
        continuation.yield(.failure(error))
      }
    }
  }

  /// Waits for the reply, once. Cancellation only ends the wait.
  func value() async throws -> RESPValue {
    for await result in outcome { return try result.get() }
    throw CancellationError()
  }
}

extension SocketError {
  /// Whether this error means that an established connection was lost.
  var endsConnection: Bool { [.connectionReset, .endOfStream, .closed, .precedingReadFailed].contains(code) }
}
