import ActorSocketsTesting
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime, .tags(.manualMemory)) struct HostLookupsTests {
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

  private func make(threads: Int = HostLookups.mostThreads) -> (HostLookups, Names) {
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

  @Test func `The families of a name are looked up each by itself`() async throws {
    let (lookups, names) = make()
    let asking = AddressFamily.allCases.map { ask(lookups, "one", $0) }
    try await eventually("both begin") { names.begun.all == ["one", "one"] }
    for _ in asking { names.answer("one") }
    for task in asking { _ = try await task.value }
  }

  @Test func `No more look-ups are under way than there may be threads`() async throws {
    let (lookups, names) = make(threads: 3)
    let all = (0..<12).map { "name \($0)" }
    let asking = all.map { ask(lookups, $0) }
    try await eventually("three begin") { names.begun.all.count == 3 }
    #expect(Set(names.begun.all) == Set(all.prefix(3)))
    for name in all { names.answer(name) }
    for task in asking { _ = try await task.value }
    #expect(names.running.withLock { $0.most } == 3)
  }

  @Test func `A cancelled call waits no longer, and a name that no call waits for is not looked up`() async throws {
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

  @Test func `A name that all have left is looked up once for who asks meanwhile`() async throws {
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

  @Test func `Thousands of names that were left do not hold up the next`() async throws {
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

  @Test func `A cancelled task does not ask`() async throws {
    let (lookups, names) = make()
    let asking = Task {
      try await eventually("cancelled") { Task.isCancelled }
      _ = try await lookups.addresses(of: HostQuery(name: "name", family: .ipv4))
    }
    asking.cancel()
    await expectCancellation { try await asking.value }
    #expect(names.begun.all == [])
  }

  @Test func `Names of a dead server do not hold up another name`() async throws {
    let (lookups, names) = make()
    let dead = (0..<30).flatMap { number in
      AddressFamily.allCases.map { ask(lookups, "www.dead\(number).example", $0) }
    }
    try await eventually("all are asked for") { names.running.withLock { $0.now } == 60 }
    for round in 0..<10 {
      let healthy = ask(lookups, "healthy\(round).example")
      names.answer("healthy\(round).example")
      #expect(try await healthy.value == [.ipv4(.loopback, port: 0)])
    }
    #expect(names.running.withLock { $0.now } == 60)
    for number in 0..<30 { for _ in AddressFamily.allCases { names.answer("www.dead\(number).example") } }
    for task in dead { _ = try await task.value }
  }

  @Test(.inRealTime) func `Eight look-ups begin together, and one more when the first take long or are left`()
    async throws
  {
    let names = Names()
    let time = ManualTime()
    let lookups = HostLookups(time.reactor) { names.lookUp($0) }
    let asking = (0..<10).map { ask(lookups, "name \($0)") }
    try await eventually("eight begin") { names.begun.all.count == 8 }
    await time.advance(by: .milliseconds(100) - .nanoseconds(1))
    await lookups.settle()
    #expect(names.begun.all.count == 8)
    asking[0].cancel()
    await expectCancellation { _ = try await asking[0].value }
    try await eventually("the ninth begins") { names.begun.all.count == 9 }
    await time.advance(by: .nanoseconds(1))
    try await eventually("the tenth begins") { names.begun.all.count == 10 }
    for number in 0..<10 { names.answer("name \(number)") }
    for task in asking.dropFirst() { _ = try await task.value }
  }

  @Test func `Names that need no network are known while every thread waits for a name server`() async throws {
    let (lookups, names) = make(threads: 1)
    let dead = ask(lookups, "dead.example")
    try await eventually("it begins") { names.begun.all.count == 1 }
    let folder = try Folder()
    let (hosts, order) = (folder.url.appending(path: "hosts"), folder.url.appending(path: "nsswitch.conf"))
    try Data("192.0.2.7 db.internal\n".utf8).write(to: hosts)
    try Data("hosts: files dns\n".utf8).write(to: order)
    let resolver = SystemResolver(HostsFile(path: hosts.path, switchPath: order.path), lookups)
    for (name, expected) in [
      ("127.0.0.1", ["127.0.0.1:0"]), ("::1", ["[::1]:0"]), ("localhost", ["[::1]:0", "127.0.0.1:0"]),
      ("DB.localhost.", ["[::1]:0", "127.0.0.1:0"]), ("loopback", ["[::1]:0", "127.0.0.1:0"]),
      ("db.internal", ["192.0.2.7:0"]), ("Db.Internal.", ["192.0.2.7:0"]),
    ] {
      #expect(try await resolver.addresses(of: name).map(\.description) == expected)
    }
    // A change takes effect at the next look-up.
    try Data("2001:db8::7 db.internal\n".utf8).write(to: hosts)
    #expect(try await resolver.addresses(of: "db.internal").map(\.description) == ["[2001:db8::7]:0"])
    #expect(names.begun.all == ["dead.example"])
    names.answer("dead.example")
    _ = try await dead.value
    // Where another source comes first, it is asked.
    try Data("hosts: dns files\n".utf8).write(to: order)
    names.answer("db.internal")
    #expect(try await resolver.addresses(of: "db.internal", family: .ipv4) == [.ipv4(.loopback, port: 0)])
  }

  @Test(arguments: [
    (EAI_NONAME, SocketError.Code.hostNotFound), (-5, .hostNotFound), (-9, .hostNotFound), (EAI_AGAIN, .resolverFailed),
    (EAI_FAIL, .resolverFailed), (EAI_MEMORY, .resolverFailed), (EAI_SYSTEM, .resolverFailed),
  ])
  func `The errors of getaddrinfo are told apart`(code: Int32, expected: SocketError.Code) {
    let told = SocketError(NameLookupError(code: code, errno: EMFILE), HostQuery(name: "a\nb.example", family: .ipv6))
    #expect(told.code == expected)
    #expect("\(told)".contains("\"a\\nb.example\""))
    #expect(told.errno == (code == EAI_SYSTEM ? EMFILE : 0))
  }
}

extension HostLookups {
  /// Returns when what was asked before has been admitted.
  fileprivate func settle() {}
}
