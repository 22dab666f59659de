import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct FirstSuccessTests {
  private struct Failure: Error {}

  @Test func `A failure is not kept, and the first success is`() throws {
    let first = FirstSuccess<Int>()
    for _ in 0..<2 {
      #expect(throws: Failure.self) { try first.value { () throws(Failure) in throw Failure() } }
    }
    let made = try first.value { () throws(Failure) in 1 }
    let kept = try first.value { () throws(Failure) in throw Failure() }
    #expect(made == 1 && kept == 1)
  }

  @Test func `Of two values that are made at the same time, all calls get the same one`() {
    let first = FirstSuccess<Int>()
    let outer = first.value { first.value { 1 } + 1 }
    #expect(outer == 1)
  }

  @Test func `All clients that name no context have the same one`() throws {
    let (one, other) = (try TLSContext.standard, try TLSContext.standard)
    #expect(one === other)
  }
}
