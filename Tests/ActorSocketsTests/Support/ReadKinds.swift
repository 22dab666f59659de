@testable import ActorSockets

extension ReadKind {
  /// Reads that three letters do not complete.
  static let unmet: [ReadKind] = [
    .exactly(9), .exactly(9, orEnd: true), .until("x", maximumLength: 9), .until("x", maximumLength: 9, orEnd: true),
    .line(.lf, maximumLength: 9), .line(.crlf, maximumLength: 9), .line(.any, maximumLength: 9),
    .message(.uint8, maximumLength: 200), .message(.uint64(.little), maximumLength: 200),
  ]
}
