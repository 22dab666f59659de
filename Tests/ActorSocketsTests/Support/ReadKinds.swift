import TestSupport

@testable import ActorSockets

extension ReadKind {
  /// Reads that three letters do not complete.
  static let unmet: [ReadKind] = [
    .exactly(9), .exactly(9, orEnd: true), .until("x", maximumLength: 9), .until("x", maximumLength: 9, orEnd: true),
    .line(.lf, maximumLength: 9), .line(.crlf, maximumLength: 9), .line(.any, maximumLength: 9),
    .message(.uint8, maximumLength: 200), .message(.uint64(.little), maximumLength: 200),
    .batch(of: .line(.lf, maximumLength: 9)), .parsing(LineParser(), 9), .parsing(ConsumingLineParser(), 9),
  ]

  /// A read whose outcome does not depend on how the stream is cut.
  static func random(_ random: inout SeededRandom) -> ReadKind {
    let maximum = Int.random(in: 4...60, using: &random)
    let orEnd = Bool.random(using: &random)
    switch Int.random(in: 0..<5, using: &random) {
    case 0: return .exactly(Int.random(in: 0...40, using: &random), orEnd: orEnd)
    case 1:
      let delimiters: [[UInt8]] = [[97], [97, 98], [97, 97, 98], [97, 98, 97, 98], [13, 10]]
      return .until(Delimiter(delimiters.randomElement(using: &random) ?? [0]), maximumLength: maximum, orEnd: orEnd)
    case 2: return .line([.lf, .crlf, .any].randomElement(using: &random) ?? .lf, maximumLength: maximum)
    case 3:
      return .message(LengthPrefix.allForms.randomElement(using: &random) ?? .uint8, maximumLength: maximum * 10)
    default: return .line(.any, maximumLength: maximum)
    }
  }
}
