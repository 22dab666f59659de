import ActorSockets
import Synchronization

/// A server behind the proxy, with its connections that wait for a request.
final class Origin: Sendable {
  /// What decides about the use of an origin.
  struct Health: Hashable, Sendable {
    /// How many checks in a row must fail before an origin that is up is down, and how many must succeed before it is up again.
    var (fall, rise) = (2, 2)
    private(set) var isUp = true
    /// The number of the last checks in a row that contradict `isUp`.
    private var contradictions = 0

    /// Adds the result of a check. Returns whether it has changed `isUp`.
    mutating func add(_ isWell: Bool) -> Bool {
      contradictions = isWell == isUp ? 0 : contradictions + 1
      guard contradictions == (isUp ? fall : rise) else { return false }
      (isUp, contradictions) = (!isUp, 0)
      return true
    }
  }

  let endpoint: Endpoint
  private let configuration: TCPConnection.Configuration
  private let health = Mutex(Health())
  private let idle = Mutex<[TCPConnection]>([])

  /// - Parameters:
  ///   - endpoint: Where the origin listens.
  ///   - limits: How long connecting and answering may take.
  init(_ endpoint: Endpoint, _ limits: ReverseProxy.Limits) {
    self.endpoint = endpoint
    var configuration = TCPConnection.Configuration()
    configuration.connectTimeout = limits.connecting
    // It also closes the connections that wait for a request.
    configuration.liveness.idleTimeout = limits.answer
    self.configuration = configuration
  }

  var isUp: Bool { health.withLock { $0.isUp } }

  // MARK: Connections

  /// Returns a connection for one request.
  ///
  /// - Parameter mayReuse: Whether it may be one that has waited. The origin may close such a connection at the moment when the request is
  ///   sent, so it must be possible to repeat the request.
  /// - Returns: The connection, which is open.
  /// - Throws: `SocketError` if the origin cannot be reached.
  func connect(mayReuse: Bool) async throws -> TCPConnection {
    while mayReuse, let connection = idle.withLock({ $0.popLast() }) {
      if await connection.isIdle { return connection }
      await connection.abort()
    }
    return try await TCPConnection.connect(to: endpoint, configuration: configuration)
  }

  /// Takes a connection back, for another request.
  func keep(_ connection: TCPConnection) {
    // A connection that is dropped is closed.
    idle.withLock { if $0.count < 32 { $0.append(connection) } }
  }

  // MARK: Health

  /// Asks for a page, and takes the answer into account.
  ///
  /// - Parameters:
  ///   - path: The path of the page.
  ///   - host: The name of the site.
  ///   - limit: How long the check may take.
  /// - Returns: Whether the origin is now up although it was down, or the other way round.
  func check(_ path: String, host: String, within limit: Duration) async -> Bool {
    let isWell = (try? await answers(path, host, .until(.now + limit))) ?? false
    if Task.isCancelled { return false }
    return health.withLock { $0.add(isWell) }
  }

  private func answers(_ path: String, _ host: String, _ deadline: Timeout) async throws -> Bool {
    let connection = try await TCPConnection.connect(to: endpoint, timeout: deadline)
    try await connection.write(
      utf8: "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nUser-Agent: health check\r\nConnection: close\r\n\r\n",
      timeout: deadline)
    let head = try await connection.read(.parsing(HeadParser(), maximumLength: 16_384), timeout: deadline)
    await connection.abort()
    return try head.map { 200...399 ~= (try Response($0)).status } ?? false
  }
}

extension TCPConnection {
  /// Whether a connection that has waited is open, and nothing has arrived on it. Bytes that no request has asked for would otherwise
  /// become the answer to the next request, perhaps of another client.
  fileprivate var isIdle: Bool {
    get async {
      do {
        _ = try await peek(upTo: 1, timeout: .zero)
        return false
      } catch {
        return (error as? SocketError)?.code == .timedOut && !hasPeerFinished
      }
    }
  }
}

/// A site: its name, and the origins that share its requests.
final class Site: Sendable {
  let name: String
  let origins: [Origin]
  private let turn = Atomic<UInt>(0)

  init(_ name: String, _ origins: [Origin]) {
    self.name = name
    self.origins = origins
  }

  /// Chooses the origin for a request: the origins that are up take turns.
  ///
  /// - Parameter failed: An origin that has just failed. It is chosen only if there is no other.
  /// - Returns: The origin; `nil` if all are down.
  func origin(after failed: Origin? = nil) -> Origin? {
    let up = origins.filter { $0.isUp }
    let others = up.filter { $0 !== failed }
    let candidates = others.isEmpty ? up : others
    if candidates.isEmpty { return nil }
    return candidates[Int(turn.wrappingAdd(1, ordering: .relaxed).oldValue % UInt(candidates.count))]
  }
}
