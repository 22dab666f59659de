import SocketSystem
import Testing

@testable import ActorSockets

/// Plays the other side of a preamble. Its answers are scripted, and arrive in pieces.
struct PreambleDriver {
  struct Outcome: Equatable {
    var sent: [UInt8] = []
    /// The bytes left for the stream; `nil` if the preamble still waits.
    var rest: [UInt8]?
    var error: SocketError.Code?
    var detail = ""
  }

  /// Each answer comes after the preamble has sent something more. Bytes of the last one that the preamble does not take belong to the
  /// stream. `pieces` returns how many bytes arrive next, at least 1.
  static func run<Machine: Preamble>(
    _ preamble: inout Machine, answers: [[UInt8]], thenEnds: Bool = false, pieces: () -> Int = { .max }
  ) -> Outcome {
    var outcome = Outcome()
    var answers = answers[...]
    var coming: [UInt8] = []
    var arrived: [UInt8] = []
    do throws(SocketError) {
      while true {
        let isAtEnd = thenEnds && coming.isEmpty && answers.isEmpty
        switch try preamble.next(Array(arrived.prefix(preamble.limit)), isAtEnd: isAtEnd) {
        case .send(let bytes, let count):
          outcome.sent += bytes
          arrived.removeFirst(count)
          if !bytes.isEmpty, let answer = answers.popFirst() { coming += answer }
        case .done(let count):
          outcome.rest = Array(arrived.dropFirst(count)) + coming
          return outcome
        case .wait:
          if arrived.count >= preamble.limit, preamble.limit > 0 { throw preamble.failure("too long") }
          if coming.isEmpty, let answer = answers.popFirst(), outcome.sent.isEmpty { coming += answer }
          if isAtEnd { throw preamble.failure("it ended the connection") }
          if coming.isEmpty { return outcome }
          let count = min(pieces(), coming.count)
          arrived += coming.prefix(count)
          coming.removeFirst(count)
        }
      }
    } catch {
      outcome.error = error.code
      outcome.detail = error.detail
      return outcome
    }
  }
}

/// Parses hexadecimal digits, with spaces anywhere.
func hex(_ text: String) -> [UInt8] {
  let digits: [Int] = text.compactMap(\.hexDigitValue)
  return stride(from: 0, to: digits.count - 1, by: 2).map { (place: Int) -> UInt8 in
    UInt8(digits[place] * 16 + digits[place + 1])
  }
}

/// How many random inputs each parser gets.
let fuzzRounds = max(rounds, 100_000)
