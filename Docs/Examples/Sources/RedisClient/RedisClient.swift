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
/// commands. `enqueueAsk` queues each command together with the read of its reply.
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
  /// The replies to the commands at the beginning of the connection; `nil` if there are no such commands.
  private var greeting: Pending<[RESPValue]?>?
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
  /// *Cancellation*: a task that is cancelled stops waiting. A command of which nothing was sent is taken back. Otherwise it is carried out
  /// nevertheless.
  ///
  /// - Parameter command: The command.
  /// - Returns: The reply.
  /// - Throws: `RedisError.server`; `SocketError` if the server cannot be reached or does not answer in time; `CancellationError`.
  func send(_ command: RedisCommand) async throws -> RESPValue {
    let reply: RESPValue
    do {
      reply = try await replies(to: [command])[0]
    } catch let error as SocketError where command.isRepeatable && error.endsConnection && !isClosed {
      reply = try await replies(to: [command])[0]
    }
    if case .error(let message) = reply { throw RedisError.server(message) }
    return reply
  }

  /// Sends commands together, so that they take one round trip, and waits for all replies. The commands of other clients may be carried
  /// out between them, unless they are within MULTI and EXEC.
  ///
  /// *Cancellation* takes back all of the commands or none, as that of ``send(_:)``.
  ///
  /// - Parameter commands: The commands.
  /// - Returns: The replies, in the order of the commands. Errors of the server are replies here.
  /// - Throws: `SocketError` if the connection is lost before all replies have arrived; `CancellationError`.
  func send(_ commands: [RedisCommand]) async throws -> [RESPValue] {
    commands.isEmpty ? [] : try await replies(to: commands)
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

  /// Sends commands, and waits for their replies. The commands are one question, so cancelling never takes back a part of a transaction.
  private func replies(to commands: [RedisCommand]) async throws -> [RESPValue] {
    if isClosed { throw SocketError(.closed, operation: "send", detail: "the client is closed") }
    let connection = connected()
    let greeting = greeting
    guard let replies = try await ask(commands, on: connection).value else {
      throw SocketError(.endOfStream, operation: "read", detail: "the server ended the connection")
    }
    // With a wrong password the server answers every command with an error. The reply to the password says why.
    for case .error(let message) in try await greeting?.value ?? [] { return commands.map { _ in .error(message) } }
    return replies
  }

  private func ask(_ commands: [RedisCommand], on connection: TCPConnection) -> Pending<[RESPValue]?> {
    var question: [UInt8] = []
    for command in commands { command.append(to: &question) }
    return connection.enqueueAsk(question, for: .replies(commands.count), timeout: .within(configuration.timeout))
  }

  /// Returns the connection. Begins a new one if the client has not connected yet, or if the connection has ended, as it does when a reply
  /// is late. It does not wait: commands queue until the new connection is up.
  private func connected() -> TCPConnection {
    if let connection, !connection.hasPeerFinished { return connection }
    let new = TCPConnection(to: server, configuration: configuration.connection)
    connection = new
    greeting = configuration.greeting.isEmpty ? nil : ask(configuration.greeting, on: new)
    return new
  }
}

extension SocketError {
  /// Whether this error means that an established connection was lost.
  var endsConnection: Bool { [.connectionReset, .endOfStream, .closed, .precedingReadFailed].contains(code) }
}
