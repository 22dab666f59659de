import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct InspectionWalkTests {
  /// The steps, with answers of the form (count, next); `nil` is silence.
  private func steps(_ subjects: [String], _ answers: [(Int, Int?)?]) -> [String] {
    var walk = InspectionWalk(subjects)
    var answers = answers[...]
    var steps: [String] = []
    while let step = walk.step() {
      switch step {
      case .begin: steps.append("begin")
      case .announce(let subject): steps.append("announce \(subject)")
      case .ask(let subject, let slot):
        steps.append("ask \(subject) \(slot)")
        if let answer = answers.popFirst() ?? nil { walk.answered(answer.0, next: answer.1) } else { walk.wasSilent() }
      case .end(let sockets, let isComplete): steps.append("end \(sockets) \(isComplete)")
      }
    }
    #expect(walk.step() == nil)
    return steps
  }

  @Test func `A process without reactors has a report with two lines`() {
    #expect(steps([], []) == ["begin", "end 0 true"])
  }

  @Test func `Each table is walked to its end, in the order of the reactors`() {
    #expect(
      steps(["a", "b"], [(3, 32), (0, 64), (2, nil), (1, nil)])
        == ["begin", "announce a", "ask a 0", "ask a 32", "ask a 64", "announce b", "ask b 0", "end 6 true"])
  }

  @Test func `A silent reactor is left, and the end says that the report is not complete`() {
    #expect(
      steps(["a", "b"], [(3, 32), nil, (1, nil)])
        == ["begin", "announce a", "ask a 0", "ask a 32", "announce b", "ask b 0", "end 4 false"])
  }
}
