// What a report says next: a pure state machine. It goes through the reactors in their order, and through the table of each in portions.
//
// Invariants:
// - The first step is `.begin` and the last one is `.end`, also if no reactor answers. After it, each step is `nil`.
// - Each reactor is announced once. Then it is asked until it has no further portion, or is silent.
// - A reactor that was silent is asked no more in this report.

struct InspectionWalk<Subject> {
  enum Step {
    case begin
    case announce(Subject)
    /// `answered` or `wasSilent` follows.
    case ask(Subject, from: Int)
    case end(sockets: Int, isComplete: Bool)
  }

  fileprivate enum Phase {
    case new
    case between
    case asking(Subject, from: Int)
    case ended
  }

  private var rest: ArraySlice<Subject>
  private var phase = Phase.new
  private var sockets = 0
  private var isComplete = true

  init(_ subjects: [Subject]) { rest = subjects[...] }

  mutating func step() -> Step? {
    switch phase {
    case .new:
      phase = .between
      return .begin
    case .asking(let subject, let slot): return .ask(subject, from: slot)
    case .between:
      guard let next = rest.popFirst() else {
        phase = .ended
        return .end(sockets: sockets, isComplete: isComplete)
      }
      phase = .asking(next, from: 0)
      return .announce(next)
    case .ended: return nil
    }
  }

  /// `next` is where the next portion begins; `nil` if the table ends.
  mutating func answered(_ count: Int, next: Int?) {
    guard case .asking(let subject, _) = phase else { return }
    sockets += count
    phase = next.map { .asking(subject, from: $0) } ?? .between
  }

  mutating func wasSilent() {
    isComplete = false
    phase = .between
  }
}

extension InspectionWalk: Sendable where Subject: Sendable {}
extension InspectionWalk.Phase: Sendable where Subject: Sendable {}
