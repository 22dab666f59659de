import ActorSockets

/// A command, and what is known about its reply.
struct SMTPCommand: Sendable, WritableMessage {
  /// The verb, for errors. The rest of the line may contain a password.
  var name: String
  var line: String
  /// The first digit of the reply if the command succeeds: 2, or 3 if the server wants more.
  var success = 2
  /// How long the reply may take.
  var timeout: Duration

  init(_ name: String, _ rest: String? = nil, success: Int = 2, timeout: Duration) {
    (self.name, self.success, self.timeout) = (name, success, timeout)
    line = rest.map { "\(name) \($0)" } ?? name
  }

  func append(to bytes: inout [UInt8]) throws {
    // A line break would begin another command. Every command passes this check.
    guard line.utf8.allSatisfy({ 32...126 ~= $0 }) else { throw SMTPError.invalidCommand(name) }
    bytes += line.utf8
    bytes += "\r\n".utf8
  }
}

/// Commands and their replies on a stream, which may be encrypted.
///
/// After an error that is not a refusal, it is not known which command the next reply belongs to. So the stream is aborted, and later
/// commands throw.
struct SMTPDialogue: Sendable {
  let stream: any ByteStream

  /// Waits for a reply that may have several lines. The time includes all of them, so that a server cannot send one byte a minute.
  private func nextReply(within timeout: Duration) async throws -> SMTPReply {
    let request: ReadRequest<SMTPReply?> = .parsing(SMTPReplyParser(), maximumLength: SMTPReplyParser.longestReply)
    guard let reply = try await stream.read(request, timeout: .after(timeout)) else {
      throw SocketError(.endOfStream, operation: "read", detail: "the server ended the connection")
    }
    return reply
  }

  /// Waits for the reply to a command that was sent.
  private func outcome(of command: SMTPCommand) async throws -> Result<SMTPReply, SMTPRefusal> {
    let reply = try await nextReply(within: command.timeout)
    switch reply.code / 100 {
    // The server is about to close the connection, and answers nothing more.
    case 4 where reply.code == 421: throw SMTPRefusal.transient(reply, to: command.name)
    case command.success: return .success(reply)
    case 4: return .failure(.transient(reply, to: command.name))
    case 5: return .failure(.permanent(reply, to: command.name))
    default: throw SMTPError.unexpectedReply(reply, to: command.name)
    }
  }

  /// Sends commands, and waits for the reply to each.
  ///
  /// - Parameters:
  ///   - commands: The commands.
  ///   - isPipelined: Whether to send all of them before the first reply arrives. The server must offer PIPELINING, RFC 2920.
  /// - Returns: The replies or refusals, in the order of the commands.
  /// - Throws: `SocketError`, `TLSError`, `CancellationError`; `SMTPRefusal` for 421; `SMTPError` for replies that fit no command.
  func outcomes(
    of commands: [SMTPCommand], isPipelined: Bool = false
  ) async throws -> [Result<SMTPReply, SMTPRefusal>] {
    try await abortingOnError {
      var outcomes: [Result<SMTPReply, SMTPRefusal>] = []
      for group in isPipelined ? [commands] : commands.map({ [$0] }) {
        var bytes: [UInt8] = []
        for command in group { try command.append(to: &bytes) }
        // Not `write`: a server may read the next command only after the client has read its replies. If the write fails, the
        // connection ends, and the reads fail, too.
        _ = stream.enqueueWrite(bytes)
        for command in group { outcomes.append(try await outcome(of: command)) }
      }
      return outcomes
    }
  }

  /// Sends a command. A refusal is an error here.
  @discardableResult
  func reply(to command: SMTPCommand) async throws -> SMTPReply { try await outcomes(of: [command])[0].get() }

  /// Waits for the reply that greets the client.
  func greeting(within timeout: Duration) async throws {
    _ = try await abortingOnError { try await outcome(of: SMTPCommand("connecting", timeout: timeout)) }.get()
  }

  /// Sends the content of a message, after the server has accepted DATA.
  func send(_ content: SMTPContent, _ timeouts: SMTPClient.Timeouts) async throws -> SMTPReply {
    try await abortingOnError {
      // Each block has its own time: a large message may take long, but it has to move.
      for start in stride(from: 0, to: content.bytes.count, by: 65_536) {
        let block = content.bytes[start..<min(start + 65_536, content.bytes.count)]
        try await stream.write(block, timeout: .after(timeouts.dataBlock))
      }
      return try await outcome(of: SMTPCommand("the message", timeout: timeouts.dataEnd))
    }.get()
  }

  private func abortingOnError<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
    do {
      return try await body()
    } catch {
      await stream.abort()
      throw error
    }
  }
}
