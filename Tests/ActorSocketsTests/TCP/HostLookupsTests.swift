import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct HostLookupsTests {
  /// Blocks each look-up until the test answers it.
  private final class Resolver: Sendable {
    let begun = Notes<String>()
    private let answers = Guarded<[String: DispatchSemaphore]>([:])
    let running = Guarded((now: 0, most: 0))

    private func semaphore(_ name: String) -> DispatchSemaphore {
      answers.withLock { answers in
        if let known = answers[name] { return known }
        let new = DispatchSemaphore(value: 0)
        answers[name] = new
        return new
      }
    }

    func answer(_ name: String) { semaphore(name).signal() }

    func lookUp(_ name: String) -> HostLookups.Outcome {
      running.withLock {
        $0.now += 1
        $0.most = max($0.most, $0.now)
      }
      begun.add(name)
      semaphore(name).wait()
      running.withLock { $0.now -= 1 }
      return .success([.ipv4(.loopback, port: 0)])
    }
  }

  private func make(threads: Int = 4) -> (HostLookups, Resolver) {
    let resolver = Resolver()
    return (HostLookups(Reactor(), maximumThreads: threads) { resolver.lookUp($0) }, resolver)
  }

  @Test func `Look-ups of one name are shared`() async throws {
    try await within("all are answered") {
      let (lookups, resolver) = make()
      let answered = Notes<UInt64>()
      for id in 0..<20 as Range<UInt64> { await lookups.ask("one", id) { _ in answered.add(id) } }
      try await eventually("it begins") { resolver.begun.all == ["one"] }
      resolver.answer("one")
      try await eventually("all are answered") { answered.all.count == 20 }
      #expect(Set(answered.all).count == 20)
      #expect(resolver.begun.all == ["one"])
      await lookups.ask("one", 99) { _ in answered.add(99) }
      resolver.answer("one")
      try await eventually("it is looked up anew") { answered.all.last == 99 }
    }
  }

  @Test func `No more look-ups are under way than there may be threads`() async throws {
    try await within("all are answered") {
      let (lookups, resolver) = make(threads: 3)
      let answered = Notes<String>()
      let names = (0..<12).map { "name \($0)" }
      for (id, name) in names.enumerated() { await lookups.ask(name, UInt64(id)) { _ in answered.add(name) } }
      try await eventually("three begin") { resolver.begun.all.count == 3 }
      #expect(Set(resolver.begun.all) == Set(names.prefix(3)))
      for name in names { resolver.answer(name) }
      try await eventually("all are answered") { answered.all.count == 12 }
      #expect(resolver.running.withLock { $0.most } == 3)
    }
  }

  @Test func `Who left hears nothing, and a name that nobody waits for is not looked up`() async throws {
    try await within("the last is answered") {
      let (lookups, resolver) = make(threads: 1)
      let answered = Notes<UInt64>()
      await lookups.ask("slow", 1) { _ in answered.add(1) }
      await lookups.ask("slow", 2) { _ in answered.add(2) }
      await lookups.ask("left", 3) { _ in answered.add(3) }
      await lookups.ask("last", 4) { _ in answered.add(4) }
      await lookups.leave("slow", 1)
      await lookups.leave("left", 3)
      await lookups.leave("nobody", 5)
      for name in ["slow", "left", "last"] { resolver.answer(name) }
      try await eventually("the last is answered") { answered.all.contains(4) }
      #expect(Set(answered.all) == [2, 4])
      #expect(resolver.begun.all == ["slow", "last"])
    }
  }

  @Test func `A name that all have left is looked up once for who asks meanwhile`() async throws {
    try await within("it is answered") {
      let (lookups, resolver) = make(threads: 1)
      let answered = Notes<UInt64>()
      await lookups.ask("name", 1) { _ in answered.add(1) }
      try await eventually("it begins") { resolver.begun.all.count == 1 }
      await lookups.leave("name", 1)
      await lookups.ask("name", 2) { _ in answered.add(2) }
      resolver.answer("name")
      try await eventually("it is answered") { answered.all == [2] }
      #expect(resolver.begun.all == ["name"])
    }
  }

  @Test func `Thousands of names that were left do not hold up the next`() async throws {
    try await within("the last is answered") {
      let (lookups, resolver) = make(threads: 1)
      let answered = Notes<String>()
      await lookups.ask("slow", 0) { _ in }
      await lookups.askAndLeave((1...10_000).map { "left \($0)" })
      await lookups.ask("last", 0) { _ in answered.add("last") }
      for name in ["slow", "last"] { resolver.answer(name) }
      try await eventually("the last is answered") { answered.all == ["last"] }
      #expect(resolver.begun.all == ["slow", "last"])
    }
  }
}

extension HostLookups {
  /// Asks for all of these names, and then leaves them, the last first.
  fileprivate func askAndLeave(_ names: [String]) {
    for name in names { ask(name, 1) { _ in Issue.record("\(name) was answered") } }
    for name in names.reversed() { leave(name, 1) }
  }
}
