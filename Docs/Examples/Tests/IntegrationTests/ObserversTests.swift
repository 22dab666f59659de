import ActorSockets
import ActorSocketsObservers
import Testing

@Suite struct ObserversTests {
  @Test func `Every observer hears of every event`() async throws {
    let (first, second) = (Witness(lagThreshold: .zero), Witness(lagThreshold: .zero))
    let both = Observers(first, second)
    _ = try await talk(observedBy: both)
    try await encrypt(observedBy: both)
    try await encrypt(observedBy: both, trusting: false)
    try await beRefused(observedBy: both, tries: 2)
    try await fail(with: Mishap(), observedBy: both)
    both.datagramsDropped(1, at: try #require(first.lastConnection))
    both.lagged(.seconds(1))
    let events: Set = [
      "connected", "accepted", "connectFailed", "connectWillRetry", "closed", "handshakeDone", "handshakeFailed",
      "handlerFailed", "datagramsDropped", "lagged",
    ]
    #expect(Set(first.notes) == events)
    #expect(first.notes.filter { $0 != "lagged" } == second.notes.filter { $0 != "lagged" })
    #expect(Set(second.notes) == events)
  }

  @Test func `Each observer has its own threshold of lag`() {
    let (quick, slow) = (Witness(lagThreshold: .milliseconds(10)), Witness(lagThreshold: .milliseconds(50)))
    let both = Observers(slow, quick)
    #expect(both.lagThreshold == .milliseconds(10))
    both.lagged(.milliseconds(20))
    both.lagged(.milliseconds(50))
    #expect(quick.notes == ["lagged", "lagged"] && slow.notes == ["lagged"])
  }

  @Test func `Without observers, nothing happens`() async throws {
    _ = try await talk(observedBy: Observers())
  }
}
