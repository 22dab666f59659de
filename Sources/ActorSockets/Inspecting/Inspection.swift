internal import EpollReactor
internal import SocketSystem

/// Shows what a running program waits for: its reactors, connections, listeners, endpoints and pools.
///
/// ```swift
/// Task { try await Inspection.serve(on: .unix(path: "/run/app/inspect.sock")) }
/// ```
///
/// Then `sockcat inspect /run/app/inspect.sock` prints a table: which connection waits for what, and since when. It costs nothing but a
/// sleeping thread until someone asks.
public enum Inspection {
  /// The version of the format.
  static let format = 1
  /// The slots of a reactor's table that one job looks at.
  static let portion = 32
  /// The most operations that are shown of each queue of a socket.
  static let mostOperations = 16
  /// How long a reactor has for its answer, before the report says that it is silent.
  static let patience = Duration.seconds(1)
  /// How long a client may take to read the whole report.
  static let clientTimeout = Duration.seconds(60)
  /// The clients that are served at a time. Others wait in the kernel.
  static let mostClients = 4

  /// Answers each client of a unix socket with the state of the process, as JSON lines, and closes its connection.
  ///
  /// It runs on a reactor of its own. So clients also get an answer while a reactor, or all threads of Swift's pool, are blocked. The
  /// sockets of a reactor that does not answer within a second are missing; a line says so, and how long the reactor's current job has run.
  ///
  /// The first line names the process, the time and the version of the format. Each further line is an object with a `type`: `reactor`,
  /// `silent`, `connection`, `listener`, `endpoint` or `pool`. The last line has the type `end`, and says whether all reactors answered.
  /// Times are in seconds. Bytes that were read or written are never shown.
  ///
  /// Only the user that the process has at this call and root get an answer: the file of the socket has the mode 0600, and the credentials
  /// of each client are checked. At most four clients are served at a time, each for at most a minute; others wait.
  ///
  /// *Cancellation* ends serving, and the call returns. *Ordering*: the sockets are looked at in portions, so the report is no snapshot of a
  /// single moment.
  ///
  /// - Parameter endpoint: Where to listen: `.unix(path:)`, not an abstract name. A file that a killed program left behind is replaced.
  /// - Throws: ``SocketError``: `.invalidArgument` for other endpoints, the errors of ``TCPListener/bind(to:configuration:reactor:)`` and
  ///   of `Reactor.start()`.
  public static func serve(on endpoint: Endpoint) async throws {
    guard let path = path(of: endpoint), !path.isAbstract, !path.isUnnamed else {
      throw SocketError.invalid(
        "inspect", "an inspection is served on the path of a unix socket only, not on \(endpoint)")
    }
    let inspector = try Inspector()
    var configuration = TCPListener.Configuration()
    configuration.permissions = 0o600
    let listener = try TCPListener.bind(
      to: endpoint, configuration: configuration, reactor: inspector.executor.reactor)
    let owner = try await listener.owner()
    var options = ServeOptions()
    options.limits.connections = mostClients
    options.drain = .immediately
    try await listener.serve(options, isolatedHandler: { await answer($0, inspector, owner) })
  }

  /// Returns the lines that ``serve(on:)`` sends, without line ends.
  ///
  /// In a simulation, the report has the reactors of the simulated host that calls it, and no others.
  ///
  /// *Cancellation* throws `CancellationError`. *Ordering* is that of ``serve(on:)``.
  ///
  /// - Returns: The lines, each with a JSON object.
  /// - Throws: ``SocketError`` of `Reactor.start()`: the report is made on a reactor of its own.
  public static func report() async throws -> [String] {
    let inspector = try Inspector()
    var walk = inspector.newWalk
    var bytes: [UInt8] = []
    while let next = try await inspector.lines(walk) {
      bytes += next.lines
      walk = next.walk
    }
    return bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Throws nothing: what a handler throws is reported on a thread of Swift's pool, and all of these may be blocked.
  private static func answer(_ client: isolated TCPConnection, _ inspector: Inspector, _ owner: UInt32?) async {
    do {
      guard mayAsk(try client.peerCredentials().userID, of: owner) else { return client.abort() }
      let end = inspector.now + clientTimeout.clampedNanoseconds
      var walk = inspector.newWalk
      while let next = try await inspector.lines(walk) {
        try await client.write(next.lines, timeout: .within(.nanoseconds(max(0, end - inspector.now))))
        walk = next.walk
      }
    } catch {
      client.abort()
    }
  }

  /// An abstract name has no file whose permissions keep other users out.
  private static func path(of endpoint: Endpoint) -> UnixPath? {
    switch endpoint {
    case .unix(let path): try? UnixPath(parsing: path)
    case .address(.unix(let path)): path
    case .address, .host: nil
    }
  }

  static func mayAsk(_ user: UInt32, of owner: UInt32?) -> Bool { user == owner || user == 0 }
}

extension TCPListener {
  /// The user of the process when the unix socket began to listen. The kernel keeps it for the peers: SO_PEERCRED, unix(7).
  fileprivate func owner() throws -> UInt32? {
    do throws(SystemError) {
      return try sockets.first?.socket?.peerCredentials()?.userID
    } catch {
      throw SocketError(error, operation: "inspect", address: localAddresses.first)
    }
  }
}
