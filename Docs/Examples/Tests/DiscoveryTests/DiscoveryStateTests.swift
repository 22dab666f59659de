import ActorSockets
import Testing

@testable import Discovery

/// The decisions, with times that the tests choose.
@Suite struct DiscoveryStateTests {
  private static let start = ContinuousClock.now
  private static let here = IPAddress.ipv4(IPv4Address(10, 0, 0, 1))
  private static let there = IPAddress.ipv4(IPv4Address(10, 0, 0, 2))
  private static let service = DiscoveredService(name: "printer", port: 631, properties: ["color": "yes"])

  private func time(_ milliseconds: Int) -> ContinuousClock.Instant { Self.start + .milliseconds(milliseconds) }

  /// A program that always chooses the longest delay.
  private func state(
    _ service: DiscoveredService? = service, _ change: (inout DiscoveryState.Settings) -> Void = { _ in }
  ) -> DiscoveryState {
    var settings = DiscoveryState.Settings()
    change(&settings)
    return DiscoveryState(id: 1, service: service, settings: settings) { $0.upperBound }
  }

  private func announcement(
    _ sender: UInt64, name: String = "other", lifetime: UInt16 = 10, properties: [String: String] = [:]
  ) -> [UInt8] {
    let service = DiscoveredService(name: name, port: 7, properties: properties)
    return DiscoveryMessage(.announcement, from: sender, lifetime: lifetime, service: service).bytes ?? []
  }

  private func peer(_ id: UInt64, _ addresses: [IPAddress]) -> DiscoveredPeer {
    DiscoveredPeer(
      id: id, service: DiscoveredService(name: "other", port: 7), addresses: addresses.map { $0.socketAddress(port: 7) }
    )
  }

  @Test func `A program introduces itself three times on a new interface, and then repeats itself`() {
    var state = state()
    state.use(interfaces: [5], at: time(0))
    #expect(state.due(at: time(199)) == [])
    let (query, own) = (
      DiscoveryState.Action.send(.query, interface: 5), DiscoveryState.Action.send(.announcement, interface: 5)
    )
    for moment in [200, 1200, 3200] {
      #expect(state.next == time(moment))
      #expect(state.due(at: time(moment)) == [query, own])
      state.use(interfaces: [5], at: time(moment))
    }
    #expect(state.due(at: time(7200)) == [own])
    #expect(state.next == time(27_200))
    state.use(interfaces: [], at: time(8000))
    #expect(state.next == nil && state.due(at: time(30_000)) == [])
  }

  @Test func `A program that only searches announces nothing, and answers nothing`() {
    var state = state(nil)
    state.use(interfaces: [5], at: time(0))
    #expect(state.due(at: time(200)) == [.send(.query, interface: 5)])
    let next = state.next
    #expect(state.receive(DiscoveryMessage(.query, from: 2).bytes ?? [], from: Self.there, on: 5, at: time(300)) == [])
    #expect(state.next == next)
  }

  @Test func `A query is answered after a delay, and many queries are answered once in a pause`() {
    var state = state()
    state.use(interfaces: [5, 6], at: time(0))
    for moment in [200, 1200, 3200, 7200] { _ = state.due(at: time(moment)) }
    let query = DiscoveryMessage(.query, from: 2).bytes ?? []
    for moment in 9000...9100 { #expect(state.receive(query, from: Self.there, on: 5, at: time(moment)) == []) }
    #expect(state.next == time(9120))
    #expect(state.due(at: time(9120)) == [.send(.announcement, interface: 5)])
    for moment in 9121...9200 { #expect(state.receive(query, from: Self.there, on: 5, at: time(moment)) == []) }
    #expect(state.due(at: time(10_119)) == [])
    #expect(state.due(at: time(10_120)) == [.send(.announcement, interface: 5)])
    // Its own query, which arrives because the program is a member of the group.
    let own = DiscoveryMessage(.query, from: 1).bytes ?? []
    #expect(state.receive(own, from: Self.here, on: 5, at: time(20_000)) == [])
    #expect(state.next == time(27_200))
  }

  @Test func `A peer is found, changes, and is lost when its time is over`() {
    var state = state()
    var found = peer(2, [Self.there])
    #expect(state.receive(announcement(2), from: Self.there, on: 5, at: time(0)) == [.tell(.found(found))])
    #expect(state.receive(announcement(2), from: Self.there, on: 5, at: time(1000)) == [])
    let both = peer(2, [Self.here, Self.there])
    #expect(state.receive(announcement(2), from: Self.here, on: 5, at: time(5000)) == [.tell(.changed(both))])
    #expect(state.next == time(10_000) && state.due(at: time(10_999)) == [])
    #expect(state.due(at: time(11_000)) == [.tell(.changed(peer(2, [Self.here])))])
    found = peer(2, [Self.here])
    found.service.properties = ["a": "b"]
    let changed = announcement(2, properties: ["a": "b"])
    #expect(state.receive(changed, from: Self.here, on: 5, at: time(12_000)) == [.tell(.changed(found))])
    #expect(state.peers == [found])
    #expect(state.due(at: time(22_000)) == [.tell(.lost(found))])
    #expect(state.peers == [] && state.next == nil)
  }

  @Test func `A goodbye counts only where its peer was heard`() {
    var state = state()
    _ = state.receive(announcement(2), from: Self.there, on: 5, at: time(0))
    let goodbye = DiscoveryMessage(.goodbye, from: 2).bytes ?? []
    #expect(state.receive(goodbye, from: Self.here, on: 5, at: time(1)) == [])
    #expect(state.receive(goodbye, from: Self.there, on: 5, at: time(2)) == [.tell(.lost(peer(2, [Self.there])))])
    #expect(state.receive(goodbye, from: Self.there, on: 5, at: time(3)) == [])
  }

  @Test func `Its own announcements are no peer, and those of others are limited`() {
    var state = state {
      $0.peers = 20
      $0.longestLifetime = 100
    }
    #expect(state.receive(announcement(1), from: Self.here, on: 5, at: time(0)) == [])
    for sender in 2..<1000 as Range<UInt64> {
      _ = state.receive(announcement(sender), from: Self.there, on: 5, at: time(0))
    }
    #expect(state.peers.count == 16)
    for sender in 1000..<2000 as Range<UInt64> {
      let address = IPAddress.ipv4(IPv4Address(rawValue: UInt32(sender)))
      _ = state.receive(announcement(sender, lifetime: .max), from: address, on: 5, at: time(0))
    }
    #expect(state.peers.count == 20)
    for number in 0..<100 as Range<UInt32> {
      _ = state.receive(announcement(2), from: .ipv4(IPv4Address(rawValue: number)), on: 5, at: time(0))
    }
    #expect(state.peers.map(\.addresses.count).max() == 8)
    _ = state.due(at: time(100_000))
    #expect(state.peers == [])
  }
}
