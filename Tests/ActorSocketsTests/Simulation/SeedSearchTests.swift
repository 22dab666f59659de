import Testing

@testable import ActorSocketsTesting

/// Which seeds run in copies of the process, without any process.
@Suite struct SeedSearchTests {
  private static func text(_ records: [SeedSearch.Record]) -> String { records.map(SeedSearch.text).joined() }

  /// Runs `search` with the seeds from 0 to `count - 1`. `copy` gets a batch, and says what its copy does.
  private static func run(
    _ search: inout SeedSearch, _ count: UInt64, inEach most: Int = 4,
    _ copy: ([UInt64]) -> (records: [SeedSearch.Record], failure: String?)
  ) -> [[UInt64]] {
    var next: UInt64 = 0
    var batches: [[UInt64]] = []
    while batches.count < 1_000 {
      let batch = search.batch(of: most) {
        defer { next += 1 }
        return next < count ? next : nil
      }
      if batch.isEmpty { break }
      batches.append(batch.map(\.number))
      let (records, failure) = copy(batch.map(\.number))
      search.ran(batch, records: text(records), failure: failure)
    }
    return batches
  }

  @Test func `Each seed runs once if all copies end as they should`() {
    var search = SeedSearch(comparesHashes: false)
    let batches = Self.run(&search, 10) { batch in
      (batch.map { $0 == 5 ? .failed("five\u{1E}\n") : .passed(hash: $0) }, nil)
    }
    #expect(batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] && search.tried == 10)
    #expect(search.failures.map(\.seed.number) == [5] && search.failures.allSatisfy { !$0.endsProcess })
    #expect(search.failures.first?.text.utf8.elementsEqual("five \n".utf8) == true)
  }

  @Test func `A seed that ends two copies has failed, and those behind it run in others`() {
    var search = SeedSearch(comparesHashes: false)
    var ends = 0
    let batches = Self.run(&search, 5) { batch in
      guard let place = batch.firstIndex(of: 1) else { return (batch.map { .passed(hash: $0) }, nil) }
      ends += 1
      return (batch[..<place].map { .passed(hash: $0) }, "was ended by the signal 4")
    }
    #expect(ends == 2 && batches == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4]])
    #expect(search.failures.map(\.seed.number) == [1] && search.failures.allSatisfy(\.endsProcess))
    #expect(search.failures.first?.text.utf8.elementsEqual("its process was ended by the signal 4".utf8) == true)
  }

  @Test func `A seed that ends one copy only has not failed`() {
    var search = SeedSearch(comparesHashes: false)
    var hasEnded = false
    let batches = Self.run(&search, 3) { batch in
      defer { hasEnded = true }
      return hasEnded ? (batch.map { .passed(hash: $0) }, nil) : ([], "has not ended after 9 s")
    }
    #expect(batches == [[0, 1, 2], [0, 1, 2]] && search.failures.isEmpty)
  }

  @Test func `A record that is not complete does not count`() {
    var search = SeedSearch(comparesHashes: false)
    let batch = search.batch(of: 2) { 7 }
    search.ran(batch, records: SeedSearch.text(of: .passed(hash: 1)) + "p12", failure: "ended with the status 0")
    #expect(search.failures.isEmpty && search.batch(of: 9) { nil } == [batch[1]])
  }

  @Test func `A seed fails if its hash is another one in a second copy`() {
    var search = SeedSearch(comparesHashes: true)
    var runs: [UInt64: UInt64] = [:]
    let batches = Self.run(&search, 4) { batch in
      (
        batch.map { seed in
          runs[seed, default: 0] += 1
          return .passed(hash: seed == 2 ? runs[seed, default: 0] : 5)
        }, nil
      )
    }
    #expect(batches == [[0, 1, 2, 3], [0, 1, 2, 3]])
    #expect(search.failures.map(\.seed.number) == [2] && search.failures.allSatisfy { !$0.endsProcess })
  }

  @Test func `A long failure is cut`() {
    var search = SeedSearch(comparesHashes: false)
    let text = String(repeating: "é", count: 100_000)
    search.ran(search.batch(of: 1) { 1 }, records: SeedSearch.text(of: .failed(text)), failure: nil)
    #expect(search.failures.first?.text.utf8.count == 4_000)
  }

  @Test func `Failures that differ in numbers are of one kind, and the most frequent kind is first`() {
    let kinds = SimulationFailure.Kind.kinds(
      of: (0..<9).map { (UInt64($0), $0 % 3 == 0 ? "lost\nat \($0)" : "seed \($0), at \($0 * 90).5 s: the body waits") }
    )
    #expect(kinds.map(\.seeds) == [[1, 2, 4, 5, 7, 8], [0, 3, 6]])
    #expect(
      kinds.map(\.description) == [
        "6 seeds, such as 1, 2, 4: seed 1, at 90.5 s: the body waits", "3 seeds, 0, 3, 6: lost",
      ])
  }
}
