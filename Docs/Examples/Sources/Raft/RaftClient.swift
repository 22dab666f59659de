import ActorSockets

enum RaftError: Error, Hashable, CustomStringConvertible {
  /// No leader has answered in time. A value may be stored nevertheless, now or later.
  case noAnswer(reason: String)
  /// A key or a value is too long.
  case tooLong

  var description: String {
    switch self {
    case .noAnswer(let reason): "no leader has answered: \(reason)"
    case .tooLong: "a key and a value have at most \(Packet.longestField) bytes"
    }
  }
}

/// A client of the nodes. It has one request at a time: make one call after the other.
///
/// It asks the leader, and looks for it if it does not answer. A request may reach several leaders, and is carried out once.
actor RaftClient {
  private let nodes: [Endpoint]
  private let patience: Duration
  private let timeout: Duration
  private var session: Session
  /// The place of the node that was the leader.
  private var current: Int
  private var connection: TCPConnection?

  /// Creates a client.
  ///
  /// - Parameters:
  ///   - number: A number that no other client has or had.
  ///   - nodes: The nodes, in the order of their numbers.
  ///   - patience: How long to wait for the answer of a node before another one is asked.
  ///   - timeout: How long a request may take.
  init(
    number: UInt64 = .random(in: 0 ... .max), nodes: [Endpoint], patience: Duration = .seconds(1),
    timeout: Duration = .seconds(10)
  ) {
    (self.nodes, self.patience, self.timeout) = (nodes, patience, timeout)
    session = Session(client: number, number: 0)
    current = Int.random(in: nodes.indices)
  }

  /// Stores a value.
  ///
  /// - Throws: `RaftError`; `CancellationError`. Except after `.tooLong`, it is not known whether the value is stored.
  func put(_ key: [UInt8], _ value: [UInt8]) async throws {
    session.number += 1
    _ = try await ask(.put(key: key, value: value, session))
  }

  /// Returns the value of a key; `nil` if it has no value.
  func get(_ key: [UInt8]) async throws -> [UInt8]? { try await ask(.get(key: key)) }

  func close() async {
    await connection?.close()
    connection = nil
  }

  private func ask(_ request: ClientRequest) async throws -> [UInt8]? {
    if case .put(let key, let value, _) = request, max(key.count, value.count) > Packet.longestField {
      throw RaftError.tooLong
    }
    let end = ContinuousClock.now + timeout
    while true {
      var reason = "no node is the leader"
      var leader: Int?
      do {
        switch try await askCurrent(request) {
        case .value(let value): return value
        case .notLeader(let known): leader = known.map { $0 - 1 }
        }
      } catch let error as SocketError {
        reason = "\(error)"
      }
      await connection?.abort()
      connection = nil
      if let leader, nodes.indices.contains(leader), leader != current {
        current = leader
      } else {
        current = (current + 1) % nodes.count
      }
      try Task.checkCancellation()
      if .now >= end { throw RaftError.noAnswer(reason: reason) }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  private func askCurrent(_ request: ClientRequest) async throws -> ClientAnswer {
    let connection = connected()
    try await connection.write(
      message: Packet.request(request).bytes, lengthPrefix: .uint32(.big), timeout: .after(patience))
    let bytes = try await connection.read(
      .message(lengthPrefix: .uint32(.big), maximumLength: Packet.longest), timeout: .after(patience))
    guard let bytes, case .answer(let answer) = try? Packet(bytes) else {
      throw SocketError(.invalidMessage, operation: "read", detail: "the node has no answer")
    }
    return answer
  }

  private func connected() -> TCPConnection {
    if let connection { return connection }
    var configuration = TCPConnection.Configuration()
    configuration.connectTimeout = patience
    let new = TCPConnection(to: nodes[current], configuration: configuration)
    connection = new
    return new
  }
}
