import Testing

@testable import ActorSocketsTLS

/// A limit of sessions that is smaller than what a server sends.
@Suite struct SessionLimitTests {
  @Test(arguments: 1...5)
  func `A small store keeps as many sessions of one server as its limit says`(limit: Int) throws {
    let sessions = ClientSessions(limit: limit, lifetime: .seconds(100))
    let session = try TLSLimitPeers.session()
    for _ in 0..<10 {
      sessions.add(session, for: .host("host.test"), at: 0)
      #expect((1...limit).contains(sessions.count))
    }
    #expect(sessions.count == min(limit, 4))
  }
}
