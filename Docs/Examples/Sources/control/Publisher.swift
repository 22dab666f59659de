import ActorSockets
import Synchronization

/// A server that sends one file to everyone who connects. Which file that is, its control socket decides while it runs.
///
/// The program that publishes a file opens it, and passes the descriptor. So the server needs no permission to open files, and looks up no
/// path: it could run as a user that may read nothing.
final class Publisher: Sendable {
  private struct State {
    var file: FileSource?
    var sent = 0
  }

  private let state = Mutex(State())

  /// The settings of the control socket: only this user may connect, and one descriptor at a time waits on a connection.
  static var controlConfiguration: TCPListener.Configuration {
    var configuration = TCPListener.Configuration()
    configuration.permissions = 0o600
    configuration.connection.pendingDescriptorLimit = 1
    return configuration
  }

  /// Sends the file to a client, or nothing if none is published.
  ///
  /// A client that is under way when another file is published gets the rest of the first one, which stays open until then.
  func send(to client: TCPConnection) async throws {
    guard let file = state.withLock({ $0.file }) else { return }
    try await client.sendFile(file, timeout: .after(.seconds(30)))
    state.withLock { $0.sent += 1 }
  }

  /// Answers the requests of a program that has connected to the control socket. A request is a line.
  func answer(_ program: TCPConnection) async throws {
    for try await request in program.lines(maximumLength: 100) {
      let answer =
        switch request {
        case "status": try status()
        case "publish": publish(await program.takeDescriptor())
        default: "the requests are status and publish"
        }
      try await program.write(utf8: answer + "\n", timeout: .within(.seconds(10)))
    }
  }

  private func status() throws -> String {
    let (file, sent) = state.withLock { ($0.file, $0.sent) }
    guard let file else { return "no file is published" }
    return "a file of \(try file.count) bytes is published, sent \(sent) times"
  }

  private func publish(_ descriptor: consuming OwnedDescriptor?) -> String {
    guard let descriptor else { return "no file came along" }
    do {
      let file = try FileSource(descriptor)
      state.withLock { $0 = State(file: file) }
      return "published"
    } catch {
      return "\(error)"
    }
  }
}
