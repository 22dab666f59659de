import TestSupport
import Testing

@Suite struct RaceTests {
  @Test func `A race with an outcome that never occurs ends, and names it`() async throws {
    let error = await #expect(throws: Overdue.self) {
      try await race(lanes: 2, rounds: 200, seed: 1, until: ["usual", "rare", "impossible"], extraSeconds: 0) {
        rounds, _ in
        var tally = Tally<String>()
        for _ in 0..<rounds { tally.count("usual") }
        tally.count("rare")
        return tally
      }
    }
    #expect(error?.description.contains("less than 2 times: impossible;") == true, "\(String(describing: error))")
  }

  @Test func `A race goes on until each outcome has occurred`() async throws {
    let lanes = Notes<UInt64>()
    try await race(lanes: 2, rounds: 100, seed: 7, until: ["usual", "rare"]) { rounds, seed in
      lanes.add(seed)
      var tally = Tally<String>()
      for _ in 0..<rounds { tally.count("usual") }
      if seed == 7009 { tally.count("rare") }
      return tally
    }
    #expect(lanes.all.sorted() == Array(7000..<7010))
  }
}
