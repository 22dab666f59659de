import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.pure)) struct TicketKeyRingTests {
  private static let second: Int64 = 1_000_000_000

  @Test func `A key seals for one lifetime and opens for two`() throws {
    var ring = TicketKeyRing(lifetime: .seconds(100))
    var number: UInt8 = 0
    let random: (Int) throws(TLSError) -> [UInt8] = { count throws(TLSError) in
      number += 1
      return [UInt8](repeating: number, count: count)
    }
    let first = try ring.sealing(at: 0, random).key
    #expect(first.name.count == 16 && first.cipherKey.count == 32 && first.macKey.count == 32)
    #expect(try ring.sealing(at: 99 * Self.second, random).key.name == first.name)
    #expect(ring.opening(first.name, at: 99 * Self.second)?.isPrevious == false)
    // It opens still, and what it opens is to be sealed anew.
    #expect(ring.opening(first.name, at: 100 * Self.second)?.isPrevious == true)
    let second = try ring.sealing(at: 150 * Self.second, random).key
    #expect(second.name != first.name)
    #expect(ring.opening(first.name, at: 199 * Self.second)?.isPrevious == true)
    #expect(ring.opening(second.name, at: 199 * Self.second)?.isPrevious == false)
    #expect(ring.opening(first.name, at: 200 * Self.second) == nil)
    #expect(ring.opening(second.name, at: 349 * Self.second)?.isPrevious == true)
    #expect(ring.opening(second.name, at: 350 * Self.second) == nil)
    // Two keys, and vectors enough for all of this.
    #expect(number == 3)
  }

  @Test func `Each ticket has a vector of its own`() throws {
    var ring = TicketKeyRing(lifetime: .seconds(100))
    let vectors = try (0..<100).map { _ in Array(try ring.sealing(at: 0, RandomBytes.make).vector) }
    #expect(vectors.allSatisfy { $0.count == 16 })
    #expect(Set(vectors).count == 100)
  }

  @Test func `A name that is not of its keys opens nothing`() throws {
    var ring = TicketKeyRing(lifetime: .seconds(100))
    #expect(ring.opening([1, 2, 3], at: 0) == nil)
    _ = try ring.sealing(at: 0, RandomBytes.make)
    #expect(ring.opening([UInt8](repeating: 0, count: 16), at: 0) == nil)
  }

  @Test func `Lifetimes of any length are defined`() throws {
    for lifetime in [Duration.seconds(Int64.max), .nanoseconds(1), .seconds(1 << 40)] {
      var ring = TicketKeyRing(lifetime: lifetime)
      let key = try ring.sealing(at: Int64.max / 4 - 1, RandomBytes.make).key
      _ = ring.opening(key.name, at: Int64.max / 2)
    }
  }
}
