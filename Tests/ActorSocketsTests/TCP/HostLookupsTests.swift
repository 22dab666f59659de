import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct HostLookupsTests {
  /// Blocks each look-up until the test answers it.
  private final class Names: Sendable {
    let begun = Notes<String>()
    private let answers = Locked<[String: DispatchSemaphore]>([:])
    let running = Locked((now: 0, most: 0))

    private func semaphore(_ name: String) -> DispatchSemaphore {
      answers.withLock { answers in
        if let known = answers[name] { return known }
        let new = DispatchSemaphore(value: 0)
        answers[name] = new
        return new
      }
    }

    func answer(_ name: String) { semaphore(name).signal() }

    func lookUp(_ query: HostQuery) -> HostLookups.Outcome {
      running.withLock {
        $0.now += 1
        $0.most = max($0.most, $0.now)
      }
      begun.add(query.name)
      semaphore(query.name).wait()
      running.withLock { $0.now -= 1 }
      return .success([.ipv4(.loopback, port: 0)])
    }
  }

  private func make(threads: Int = 4) -> (HostLookups, Names) {
    let names = Names()
    return (HostLookups(Reactor(), maximumThreads: threads) { names.lookUp($0) }, names)
  }

  /// Begins to ask; calls are admitted in the order in which this is called.
  private func ask(
    _ lookups: HostLookups, _ name: String, _ family: AddressFamily = .ipv4
  ) -> Task<[SocketAddress], any Error> {
    Task.immediate { try await lookups.addresses(of: HostQuery(name: name, family: family)) }
  }

  @Test func `Look-ups of one name are shared`() async throws {
    try await within("all are answered") {
      let (lookups, names) = make()
      let asking = (0..<20).map { _ in ask(lookups, "one") }
      try await eventually("it begins") { names.begun.all == ["one"] }
      names.answer("one")
      for task in asking { #expect(try await task.value == [.ipv4(.loopback, port: 0)]) }
      #expect(names.begun.all == ["one"])
      let again = ask(lookups, "one")
      names.answer("one")
      _ = try await again.value
      #expect(names.begun.all == ["one", "one"])
    }
  }

  @Test func `The families of a name are looked up each by itself`() async throws {
    try await within("both are answered") {
      let (lookups, names) = make()
      let asking = AddressFamily.allCases.map { ask(lookups, "one", $0) }
      try await eventually("both begin") { names.begun.all == ["one", "one"] }
      for _ in asking { names.answer("one") }
      for task in asking { _ = try await task.value }
    }
  }

  @Test func `No more look-ups are under way than there may be threads`() async throws {
    try await within("all are answered") {
      let (lookups, names) = make(threads: 3)
      let all = (0..<12).map { "name \($0)" }
      let asking = all.map { ask(lookups, $0) }
      try await eventually("three begin") { names.begun.all.count == 3 }
      #expect(Set(names.begun.all) == Set(all.prefix(3)))
      for name in all { names.answer(name) }
      for task in asking { _ = try await task.value }
      #expect(names.running.withLock { $0.most } == 3)
    }
  }

  @Test func `A cancelled call waits no longer, and a name that no call waits for is not looked up`() async throws {
    try await within("the last is answered") {
      let (lookups, names) = make(threads: 1)
      let slow = ask(lookups, "slow")
      let stays = ask(lookups, "slow")
      let left = ask(lookups, "left")
      let last = ask(lookups, "last")
      for task in [slow, left] {
        task.cancel()
        await expectCancellation { _ = try await task.value }
      }
      for name in ["slow", "left", "last"] { names.answer(name) }
      _ = try await stays.value
      _ = try await last.value
      #expect(names.begun.all == ["slow", "last"])
    }
  }

  @Test func `A name that all have left is looked up once for who asks meanwhile`() async throws {
    try await within("it is answered") {
      let (lookups, names) = make(threads: 1)
      let first = ask(lookups, "name")
      try await eventually("it begins") { names.begun.all.count == 1 }
      first.cancel()
      await expectCancellation { _ = try await first.value }
      let second = ask(lookups, "name")
      await lookups.settle()
      names.answer("name")
      _ = try await second.value
      #expect(names.begun.all == ["name"])
    }
  }

  @Test func `Thousands of names that were left do not hold up the next`() async throws {
    try await within("the last is answered") {
      let (lookups, names) = make(threads: 1)
      let slow = ask(lookups, "slow")
      let left = (1...10_000).map { ask(lookups, "left \($0)") }
      let last = ask(lookups, "last")
      for task in left.reversed() { task.cancel() }
      for task in left { await expectCancellation { _ = try await task.value } }
      for name in ["slow", "last"] { names.answer(name) }
      _ = try await slow.value
      _ = try await last.value
      #expect(names.begun.all == ["slow", "last"])
    }
  }

  @Test func `A cancelled task does not ask`() async throws {
    try await within("it returns") {
      let (lookups, names) = make()
      let asking = Task {
        try await eventually("cancelled") { Task.isCancelled }
        _ = try await lookups.addresses(of: HostQuery(name: "name", family: .ipv4))
      }
      asking.cancel()
      await expectCancellation { try await asking.value }
      #expect(names.begun.all == [])
    }
  }

  @Test(arguments: [
    (EAI_NONAME, SocketError.Code.hostNotFound), (-5, .hostNotFound), (-9, .hostNotFound),
    (EAI_AGAIN, .resolverFailed), (EAI_FAIL, .resolverFailed), (EAI_MEMORY, .resolverFailed),
    (EAI_SYSTEM, .resolverFailed),
  ])
  func `The errors of getaddrinfo are told apart`(code: Int32, expected: SocketError.Code) {
    let error = NameLookupError(code: code, errno: EMFILE)
    let told = SocketError(error, HostQuery(name: "a\nb.example", family: .ipv6))
    #expect(told.code == expected)
    #expect("\(told)".contains("\"a\\nb.example\""))
    #expect(told.errno == (code == EAI_SYSTEM ? EMFILE : 0))
  }
}

extension HostLookups {
  /// Returns when what was asked before has been admitted.
  fileprivate func settle() {}
}
