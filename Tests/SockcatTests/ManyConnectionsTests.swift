import ActorSockets
import Glibc
import TestSupport
import Testing

@Suite struct ManyConnectionsTests {
  private static let count = 10_000

  /// The descriptors that this process and those it starts may have, after asking for enough.
  private static let limit: Int = {
    var limit = rlimit()
    // SAFETY: both calls read or write one struct rlimit, which `limit` is.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
    limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, 20_000))
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return Int(clamping: limit.rlim_cur)
  }()

  @Test(
    .runs(unless: limit > count + 500 ? nil : "this process may not have 10,500 descriptors: ulimit -n"),
    arguments: ["pool", "reactor"])
  func `Ten thousand connections are up at once on one reactor, at both ends`(place: String) async throws {
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--on", place, "--max-connections", "20000"])
    let endpoint = try Endpoint(parsing: address)
    let reactor = Reactor()
    var clients: [TCPConnection] = []
    for start in stride(from: 0, to: Self.count, by: 500) {
      clients += try await withThrowingTaskGroup(of: TCPConnection.self) { group in
        for _ in start..<start + 500 {
          group.addTask { try await TCPConnection.connect(to: endpoint, reactor: reactor) }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
    }
    #expect(clients.count == Self.count)
    for round in 0..<2 {
      let texts = clients.indices.map { Array("\(round) \($0)\n".utf8) }
      for (client, text) in zip(clients, texts) { try await client.write(text) }
      for (client, text) in zip(clients, texts) {
        #expect(try await client.read(exactly: text.count, timeout: .seconds(20)) == text)
      }
    }
    for client in clients { await client.abort() }
    await server.kill(SIGTERM)
    // A connection that its client aborts counts as failed, but does not change the exit status.
    _ = try await server.exitStatus()
  }
}
