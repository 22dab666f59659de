import ActorSockets
import Glibc

/// A connection to the control socket of a running server.
struct ControlClient: Sendable {
  private let connection: TCPConnection
  private let timeout: Duration

  /// Connects to a server.
  ///
  /// - Parameters:
  ///   - path: The path of the control socket.
  ///   - timeout: How long each line of a reply may take.
  /// - Throws: `SocketError`, for example `.connectionRefused` for a stale socket; `ControlError` if the server belongs to another user,
  ///   who could otherwise give this process any socket.
  init(path: String, timeout: Duration = .seconds(15)) async throws {
    var configuration = TCPConnection.Configuration()
    // One more than expected, so that too many are noticed.
    configuration.pendingDescriptorLimit = 2
    connection = try await TCPConnection.connect(
      to: .unix(path: path), configuration: configuration, timeout: .after(timeout))
    self.timeout = timeout
    let user = try await connection.peerCredentials().userID
    guard [geteuid(), 0].contains(user) else { throw ControlError("the server belongs to user \(user)") }
  }

  /// Gives a command, and returns the lines of the reply.
  ///
  /// A server that refuses this user replies at once and ends the connection, perhaps before the command is written. So the reply counts
  /// even if the write fails: it says why.
  func ask(_ command: String) async throws -> [String] {
    do {
      try await connection.write(utf8: command + "\n", timeout: .after(timeout))
    } catch SocketError.Code.connectionReset {
      // The bytes that arrived before can still be read. Without any, the read throws.
    }
    return try await ControlReply.read(from: connection, timeout: .after(timeout))
  }

  /// Asks for the listening socket. If the server sends no or several descriptors, all of them are closed.
  func requestSocket() async throws -> OwnedDescriptor {
    _ = try await ask("handover")
    guard let socket = await connection.takeDescriptor() else { throw ControlError("the server has passed no socket") }
    if await connection.takeDescriptor() != nil { throw ControlError("the server has passed more than a socket") }
    return socket
  }

  /// Tells the server that this process accepts, and waits until the server has removed its control socket.
  ///
  /// Errors do not matter here. The path decides: only if it is free, this process is the successor.
  func takeOver() async {
    _ = try? await ask("ready")
    await connection.close()
  }

  func close() async { await connection.close() }
}
