import ActorSockets

struct Join: Service {
  private enum Direction { case outgoing, incoming }

  private let input: StandardInput
  private let output: StandardOutput
  private let keepsSending: Bool

  /// `keepsSending` keeps the sending direction open when the input has ended, until the peer has finished, too.
  init(keepsSending: Bool) {
    self.keepsSending = keepsSending
    input = StandardInput()
    output = StandardOutput()
  }

  /// Ends when both directions have ended; if a person types the input, when the peer's direction has ended.
  func serve(_ connection: some ByteStream) async throws {
    let failure = await withTaskGroup(of: (Direction, (any Error)?).self) { group in
      group.addTask { (.outgoing, await error { try await send(to: connection) }) }
      group.addTask { (.incoming, await error { try await receive(from: connection) }) }
      var failure: (any Error)?
      for await (direction, error) in group {
        if failure == nil, let error, !(error is CancellationError) { failure = error }
        // A peer that accepts no more bytes may have sent the reason, so its bytes are read to the end.
        let isDone =
          direction == .incoming ? error != nil || input.isTerminal : error != nil && !(error is SocketError)
        if isDone { group.cancelAll() }
      }
      return failure
    }
    if let failure { throw failure }
    try Task.checkCancellation()
  }

  func drain() { input.end() }

  private func send(to connection: some ByteStream) async throws {
    while let bytes = try await input.read() { try await connection.write(bytes) }
    if !keepsSending { try await connection.finishWriting() }
  }

  private func receive(from connection: some ByteStream) async throws {
    while let bytes = try await connection.read() { try await output.write(bytes) }
  }

  private func error(of body: () async throws -> Void) async -> (any Error)? {
    do {
      try await body()
      return nil
    } catch {
      return error
    }
  }
}
