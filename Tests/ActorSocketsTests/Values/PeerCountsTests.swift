import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct PeerCountsTests {
  private func address(_ text: String) throws -> SocketAddress { try SocketAddress(parsing: text) }

  @Test(arguments: [
    ("192.0.2.1:1", "192.0.2.1:2", true), ("192.0.2.1:1", "192.0.2.2:1", false),
    ("[2001:db8::1]:1", "[2001:db8::ffff:1]:9", true), ("[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", false),
    ("[::ffff:192.0.2.1]:1", "192.0.2.1:2", true), ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false),
    ("unix:/a", "unix:/a", false),
  ])
  func `A peer is an IPv4 address or an IPv6 network of 64 bits`(first: String, second: String, isSame: Bool) throws {
    var counts = PeerCounts(limit: 1)
    let (first, second) = (try address(first), try address(second))
    counts.enter(1, from: first)
    #expect(counts.hasRoom(for: second) == !isSame)
    counts.leave(1)
    #expect(counts.hasRoom(for: second) && counts.peers == 0)
  }

  @Test func `Without a limit no peer is counted`() throws {
    var counts = PeerCounts(limit: nil)
    for id in 0..<100 { counts.enter(UInt64(id), from: try address("192.0.2.1:1")) }
    #expect(counts.hasRoom(for: try address("192.0.2.1:1")) && counts.peers == 0)
    counts.leave(1)
  }

  @Test func `Counts come back to nothing, whatever the order`() throws {
    var random = SeededRandom(seed: 7)
    var counts = PeerCounts(limit: 5)
    var present: [(id: UInt64, address: SocketAddress)] = []
    for id in 0..<10_000 as Range<UInt64> {
      let address = SocketAddress.ipv4(IPv4Address(rawValue: UInt32.random(in: 0..<50, using: &random)), port: 1)
      if counts.hasRoom(for: address), Bool.random(using: &random) {
        counts.enter(id, from: address)
        present.append((id, address))
        // It is counted once, under the first address.
        counts.enter(id, from: .ipv4(.loopback, port: 1))
      } else if let index = present.indices.randomElement(using: &random) {
        let gone = present.remove(at: index)
        counts.leave(gone.id)
        counts.leave(gone.id)
      }
      let mine = present.count { $0.address == address }
      #expect(mine <= 5 && counts.hasRoom(for: address) == (mine < 5))
    }
    for connection in present { counts.leave(connection.id) }
    #expect(counts.peers == 0)
  }
}
