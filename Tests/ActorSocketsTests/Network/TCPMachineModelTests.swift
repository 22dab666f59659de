import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPMachineModelTests {
  private static let seeds = TestSupport.seeds(1_000)

  /// Runs a pair of machines with each seed, and records the first problem.
  private func runAll(
    _ change: (inout MachinePair.Character, inout SeededRandom) -> Void = { _, _ in },
    _ problem: (MachinePair) -> String?
  ) {
    for seed in 0..<Self.seeds {
      var pair = MachinePair(seed: seed) { random in
        var character = MachinePair.Character(
          loss: random.below(4) == 0 ? 0 : random.below(40), repeats: random.below(3) == 0 ? random.below(30) : 0,
          slowest: [1, 50, 900][random.below(3)])
        change(&character, &random)
        return character
      }
      pair.run()
      if let problem = pair.flaw ?? problem(pair) {
        Issue.record("seed \(seed), at \(pair.now): \(problem)\n\(pair.ends[0])\n\(pair.ends[1])")
        return
      }
    }
  }

  @Test func `Bytes arrive in order, each once, and the connection ends when both programs have finished`() {
    runAll { pair in
      for (end, peer) in [(pair.ends[0], pair.ends[1]), (pair.ends[1], pair.ends[0])] {
        if end.written != end.length || end.read != peer.length { return "bytes are missing" }
        if !end.hasReadEnd || end.error != nil { return "a program has not read the end" }
        if !end.hasEnded { return "the connection has not ended" }
      }
      return nil
    }
  }

  @Test func `A program that closes early ends its peer's connection, too`() {
    var resets = 0
    runAll { character, _ in
      character.mayClose = true
    } _: { pair in
      // A lost reset is not sent again: the peer finds out when it sends something.
      for end in pair.ends where !end.hasEnded && end.waits { return "a machine waits for ever" }
      if pair.ends.contains(where: { $0.error == Errno.connectionReset }) { resets += 1 }
      let isOdd = pair.ends[0].read > pair.ends[1].written || pair.ends[1].read > pair.ends[0].written
      return isOdd ? "bytes come from nowhere" : nil
    }
    #expect(resets > Self.seeds / 100)
  }

  @Test func `When everything is lost from some moment on, what waits for an answer times out`() {
    var timedOut = 0
    runAll { character, random in
      character.silence = Int64(random.below(3_000)) * 1_000_000
    } _: { pair in
      for end in pair.ends {
        // A machine that has nothing to send waits for ever, because keep-alive is off.
        if !end.hasEnded, end.waits { return "a machine waits for ever" }
        if end.machine.error == Errno.timedOut || end.error == Errno.timedOut { timedOut += 1 }
      }
      return pair.now > 5_000 * TCPMachine.second ? "it took too long" : nil
    }
    #expect(timedOut > Self.seeds / 4)
  }
}
