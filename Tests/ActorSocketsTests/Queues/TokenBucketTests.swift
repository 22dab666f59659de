import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct TokenBucketTests {
  @Test func `A full bucket gives its burst at once, and then the rate`() {
    var bucket = TokenBucket(rate: 1_000, burst: 300, at: 5)
    #expect(bucket.available(at: 5) == 300 && bucket.pause(for: 300, at: 5) == 0)
    bucket.take(300, at: 5)
    #expect(bucket.available(at: 5) == 0 && bucket.pause(for: 1, at: 5) == 1_000_000)
    #expect(bucket.pause(for: 250, at: 5) == 250_000_000)
    // Never more than the burst.
    #expect(bucket.pause(for: 1_000_000, at: 5) == 300_000_000)
    #expect(bucket.available(at: 100_000_005) == 100)
    #expect(bucket.available(at: .max) == 300)
  }

  @Test func `Fractions of a byte are kept`() {
    var bucket = TokenBucket(rate: 3, burst: 10, at: 0)
    bucket.take(10, at: 0)
    var taken = 0
    for time in stride(from: 0 as Int64, through: 100_000_000_000, by: 100_000_000) {
      let count = bucket.available(at: time)
      bucket.take(count, at: time)
      taken += count
    }
    #expect(taken == 300)
  }

  @Test func `Extreme rates and times do not overflow`() {
    for rate in [1, Int.max] {
      for burst in [1, Int.max] {
        var bucket = TokenBucket(rate: rate, burst: burst, at: 0)
        bucket.take(burst, at: 0)
        #expect(bucket.pause(for: .max, at: 0) > 0)
        #expect(bucket.available(at: .max) <= burst)
      }
    }
    // A clock that is read earlier than the last time gives nothing.
    var bucket = TokenBucket(rate: 1_000, burst: 10, at: 1_000_000_000)
    bucket.take(10, at: 1_000_000_000)
    #expect(bucket.available(at: 0) == 0)
  }

  @Test(arguments: 0..<200 as Range<UInt64>)
  func `From any instant on, no more bytes move than the burst and those of the rate`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let rate = Int.random(in: 1...1_000_000, using: &random)
    let burst = Int.random(in: 1...100_000, using: &random)
    var bucket = TokenBucket(rate: rate, burst: burst, at: 0)
    var now: Int64 = 0
    var takes: [(time: Int64, count: Int)] = []
    for _ in 0..<60 {
      if Bool.random(using: &random) { now += Int64.random(in: 0...2_000_000_000, using: &random) }
      let wanted = Int.random(in: 1...burst, using: &random)
      let pause = bucket.pause(for: wanted, at: now)
      if pause > 0 {
        var early = bucket
        #expect(early.available(at: now + pause - 1) < wanted, "the pause is too long")
      }
      now += pause
      #expect(bucket.available(at: now) >= wanted, "the pause is too short")
      bucket.take(wanted, at: now)
      takes.append((now, wanted))
    }
    for start in takes.indices {
      var sum = 0
      for take in takes[start...] {
        sum += take.count
        let time = Double(take.time - takes[start].time) / 1e9
        #expect(Double(sum) <= Double(burst) + Double(rate) * time + 1e-3, "seed \(seed)")
      }
    }
  }
}
