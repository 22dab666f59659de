import TestSupport
import Testing

@testable import ActorSockets

@Suite struct ExchangeTests {
  private enum Event: CaseIterable { case answer, answerFails, questionFails, cancel }

  private static func step(_ exchange: inout Exchange, _ event: Event, isAsked: Bool) -> Exchange.Action {
    switch event {
    case .answer: exchange.answered(fails: false, isAsked: isAsked)
    case .answerFails: exchange.answered(fails: true, isAsked: isAsked)
    case .questionFails: exchange.questionFailed(isAsked: isAsked)
    case .cancel: exchange.cancelled(isAsked: isAsked)
    }
  }

  @Test func `In every order of events the caller is told once, and a question that was sent keeps its answer's place`()
  {
    let events = Event.allCases.flatMap { event in [(event, false), (event, true)] }
    for first in events {
      for second in events {
        for third in events {
          var exchange = Exchange()
          var (told, isAsked, isOver) = (0, false, false)
          for (event, sent) in [first, second, third] {
            isAsked = isAsked || sent
            let action = Self.step(&exchange, event, isAsked: isAsked)
            switch action {
            case .nothing: break
            case .tell: told += 1
            case .withdraw:
              told += 1
              #expect(!isAsked && !isOver)
            case .endStream(let tells):
              told += tells ? 1 : 0
              #expect(isAsked && event == .answerFails && !isOver)
            }
            isOver = exchange.phase == .ended
            #expect(told <= 1 && (told == 1) == (exchange.phase != .open), "\(first) \(second) \(third)")
          }
        }
      }
    }
  }

  @Test func `A dropped answer that fails ends the stream without another word to the caller`() {
    var exchange = Exchange()
    #expect(exchange.cancelled(isAsked: true) == .tell)
    #expect(exchange.phase == .dropped)
    #expect(exchange.cancelled(isAsked: true) == .nothing)
    #expect(exchange.questionFailed(isAsked: false) == .nothing)
    #expect(exchange.answered(fails: true, isAsked: true) == .endStream(tells: false))
    #expect(exchange.answered(fails: false, isAsked: true) == .nothing)
  }
}
