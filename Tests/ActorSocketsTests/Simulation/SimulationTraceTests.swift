import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct SimulationTraceTests {
  @Test func `The last lines are kept in their order, and the hash counts all`() {
    var one = SimulationTrace()
    var other = SimulationTrace()
    one.record(.note("first"), at: 0, on: 0)
    other.record(.note("First"), at: 0, on: 0)
    #expect(one.lines == ["0.000000000 s first"])
    for number in 1...SimulationTrace.kept + 5 {
      one.record(.note("\(number)"), at: Int64(number), on: 0)
      other.record(.note("\(number)"), at: Int64(number), on: 0)
    }
    #expect(one.lines == other.lines && one.hash != other.hash)
    #expect(one.lines.count == SimulationTrace.kept)
    #expect(one.lines.first == "0.000000006 s 6" && one.lines.last == "0.000001005 s 1005")
  }

  @Test func `Events differ by kind, time and text`() {
    let events: [(SimulationTrace.Event, Int64)] = [
      (.task(1), 0), (.task(2), 0), (.mainActor(1), 0), (.worker(1), 0), (.actor, 0), (.reactor, 0), (.task(1), 1),
      (.note(""), 0),
      (.note("a"), 0), (.note("b"), 0),
    ]
    let hashes = events.map { event, time in
      var trace = SimulationTrace()
      trace.record(event, at: time, on: 0)
      return trace.hash
    }
    #expect(Set(hashes).count == events.count)
  }
}
