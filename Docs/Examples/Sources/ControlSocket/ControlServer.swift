import ActorSockets
import ByteText
import Glibc

/// The control socket of a service.
struct ControlServer: Sendable {
  struct Limits: Sendable {
    /// How many clients may be connected at a time.
    var connections = 16
    /// How long a client may say nothing.
    var idle: Duration = .seconds(60)
    /// How long the next process may take from getting the socket to being ready.
    var takeover: Duration = .seconds(10)
    /// How long connections may continue after `drain`.
    var drain: Duration = .seconds(10)
    /// How long they may continue after a handover, when another process serves the new ones.
    var handover: Duration = .seconds(60)
  }

  let service: Service
  var limits = Limits()
  /// The users who may give commands. The file's permissions already keep others out. The check also holds if the file was made
  /// accessible later.
  var allowedUsers: Set<UInt32> = [geteuid(), 0]
  private let listener: TCPListener

  /// Starts to listen. A stale socket at the path is replaced; one that a program has open is the error `.addressInUse`.
  init(for service: Service, at path: String) throws {
    self.service = service
    var configuration = TCPListener.Configuration()
    configuration.permissions = 0o600
    configuration.backlog = 16
    // Connections receive no descriptors by default: the kernel closes those that clients pass.
    listener = try TCPListener.bind(to: .unix(path: path), configuration: configuration)
  }

  /// Serves clients until the task is cancelled, or the next process has taken over.
  func serve() async throws {
    try await listener.serve(.init(limits: .init(connections: limits.connections), drain: .within(.seconds(1)))) {
      try await serve($0)
    }
  }

  private func serve(_ connection: TCPConnection) async throws {
    let peer = try await connection.peerCredentials()
    guard allowedUsers.contains(peer.userID) else {
      service.log.write(.error, "control: user \(peer.userID), process \(peer.processID) is refused")
      return try await reply(.error("user \(peer.userID) may not control this server"), to: connection)
    }
    do {
      for try await line in connection.lines(maximumLength: ControlCommand.longestLine, timeout: .after(limits.idle)) {
        do {
          let command = try ControlCommand(parsing: line)
          service.log.write(.info, "control: user \(peer.userID), process \(peer.processID): \(command)")
          try await carryOut(command, from: connection)
        } catch let error as ControlError {
          try await reply(.error(error.description), to: connection)
        }
      }
    } catch let error as SocketError where [.limitExceeded, .invalidUTF8].contains(error.code) {
      // The rest of the line would be taken for commands. So this ends the connection.
      try await reply(
        .error("a command is a line of text with at most \(ControlCommand.longestLine) bytes"), to: connection)
    }
  }

  private func carryOut(_ command: ControlCommand, from connection: TCPConnection) async throws {
    switch command {
    case .help: try await reply(.ok(ControlCommand.list), to: connection)
    case .status: try await reply(.ok(service.status), to: connection)
    case .connections: try await reply(.ok(service.connectionList), to: connection)
    case .logLevel(let level):
      if let level { service.log.level = level }
      try await reply(.ok([service.log.level.rawValue]), to: connection)
    case .drain:
      await service.drain(within: limits.drain)
      try await reply(.ok(), to: connection)
    case .handover: try await handOver(to: connection)
    }
  }

  private func reply(_ reply: ControlReply, to connection: TCPConnection) async throws {
    try await connection.write(message: reply, timeout: .seconds(5))
  }

  // MARK: Handing over

  /// Passes the listening socket to the next process.
  ///
  ///     this process                        the next one
  ///     accepts        ◀── handover ──────
  ///     accepts        ─── ok, socket ───▶  adopts the socket, and accepts
  ///     accepts        ◀── ready ─────────  accepts
  ///     removes the control socket          accepts
  ///     stops accepting ── ok ───────────▶  binds the control socket
  ///
  /// At every moment at least one process accepts. If the next one ends before it is ready, nothing has changed.
  private func handOver(to connection: TCPConnection) async throws {
    let socket = try await service.lendSocket()
    do {
      var bytes: [UInt8] = []
      ControlReply.ok(["\(service.listener.localAddresses[0])"]).append(to: &bytes)
      try await connection.write(bytes, passing: socket, timeout: .seconds(5))
      let answer = try await connection.read(
        .line(maximumLength: ControlCommand.longestLine), timeout: .after(limits.takeover))
      guard let answer, ByteText(answer).equals("ready") else { throw ControlError("the next process is not ready") }
    } catch {
      service.log.write(.error, "control: no handover: \(error)")
      await service.keepSocket()
      throw error
    }
    // The second call closes the listener even if there are too many clients to accept those that wait.
    await listener.drain(within: .seconds(1))
    await listener.close()
    await service.drain(within: limits.handover, idleReads: .wait)
    service.log.write(.info, "handed over")
    try await reply(.ok(), to: connection)
  }
}
