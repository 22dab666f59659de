import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// The list of interfaces, and its changes, on machines whose interfaces the tests change.
@Suite(.serialized, .needsNamespaces, .endsInTime) struct InterfaceMonitorTests {
  private struct Machine {
    let namespace: Namespace
    let reactor = Reactor()
    var changes: NetworkInterface.Changes { NetworkInterface.changes(reactor: reactor) }

    init() async throws {
      namespace = try await Namespace()
      try await namespace.enter(reactor)
      try await namespace.ip("link set lo up")
    }

    /// Addresses of the loopback, because the kernel adds no further ones to it by itself.
    func add(_ numbers: Int...) async throws {
      for number in numbers { try await namespace.ip("address add 192.0.2.\(number)/24 dev lo") }
    }

    func remove(_ number: Int) async throws { try await namespace.ip("address delete 192.0.2.\(number)/24 dev lo") }

    /// Notes each list of a new loop.
    func collect(_ changes: NetworkInterface.Changes? = nil) -> (
      lists: Notes<[NetworkInterface]>, task: Task<Void, any Error>
    ) {
      let (lists, changes) = (Notes<[NetworkInterface]>(), changes ?? self.changes)
      return (lists, Task { for try await list in changes { lists.add(list) } })
    }
  }

  /// The last numbers of the addresses that `add` has added.
  private static func numbers(_ list: [NetworkInterface]) -> [UInt32] {
    list.flatMap(\.addresses).compactMap {
      if case .ipv4(let address) = $0.address, address.rawValue >> 8 == 0xC0_0002 {
        address.rawValue & 255
      } else {
        nil
      }
    }
  }

  /// Takes lists until one fits.
  private static func next(
    of iterator: inout NetworkInterface.Changes.Iterator, where fits: (NetworkInterface?) -> Bool
  ) async throws -> NetworkInterface? {
    while let list = try await iterator.next() {
      let cable = list.first { $0.name == "cable" }
      if fits(cable) { return cable }
    }
    return nil
  }

  @Test func `The list has the addresses with their prefixes, and what the interfaces can do`() async throws {
    let machine = try await Machine()
    try await machine.namespace.ip(
      "link add cable type veth peer name end", "address add 198.51.100.7/22 dev cable",
      "address add 198.51.100.8/32 label cable:1 dev cable", "address add 2001:db8::7/126 dev cable nodad")
    let before = try await machine.namespace.run { try NetworkInterface.all() }
    let down = try #require(before.first { $0.name == "cable" })
    #expect(!down.isUp && !down.isRunning && !down.isLoopback && !down.isPointToPoint && down.supportsMulticast)
    #expect(down.addresses.map(\.description) == ["198.51.100.7/22", "198.51.100.8/32", "2001:db8::7/126"])
    #expect(down.addresses[0].network.contains(try IPAddress(parsing: "198.51.103.255")))
    #expect(
      before.map(\.name).sorted() == ["cable", "end", "lo"] && before.map(\.index) == before.map(\.index).sorted())
    try await machine.namespace.ip("link set cable up", "link set end up")
    try await eventually("the cable carries") {
      let list = try await machine.namespace.run { try NetworkInterface.all() }
      return list.contains { $0.name == "cable" && $0.isUp && $0.isRunning }
    }
  }

  @Test func `A loop sees an interface come, get an address, carry, go down and go`() async throws {
    let machine = try await Machine()
    var changes = machine.changes.makeAsyncIterator()
    let first = try await changes.next()
    #expect(first?.map(\.name) == ["lo"])
    try await machine.namespace.ip("link add cable type veth peer name end")
    let new = try await Self.next(of: &changes) { $0 != nil }
    #expect(new?.isUp == false)
    try await machine.namespace.ip("address add 198.51.100.7/24 dev cable")
    _ = try await Self.next(of: &changes) { $0?.addresses.map(\.description) == ["198.51.100.7/24"] }
    try await machine.namespace.ip("address add 2001:db8::7/64 dev cable nodad")
    _ = try await Self.next(of: &changes) { $0?.addresses.count == 2 }
    try await machine.namespace.ip("link set cable up")
    _ = try await Self.next(of: &changes) { $0?.isUp == true }
    try await machine.namespace.ip("link set end up")
    _ = try await Self.next(of: &changes) { $0?.isRunning == true }
    try await machine.namespace.ip("link set end down")
    _ = try await Self.next(of: &changes) { $0?.isRunning == false }
    try await machine.namespace.ip("link set cable down")
    _ = try await Self.next(of: &changes) { $0?.isUp == false }
    try await machine.namespace.ip("link delete cable")
    let gone = try await Self.next(of: &changes) { $0 == nil }
    #expect(gone == nil)
  }

  @Test func `Changes at one time are one element, and those that are taken back are no element`() async throws {
    let machine = try await Machine()
    let (lists, task) = machine.collect()
    try await eventually("the first list is there") { lists.all.count == 1 }
    try await machine.reactor.sleeps()
    try await machine.reactor.whileBlocked { try await machine.add(1, 2, 3) }
    try await eventually("the changes are there") { lists.all.count == 2 }
    try await machine.reactor.sleeps()
    try await machine.reactor.whileBlocked {
      try await machine.add(4)
      try await machine.remove(4)
    }
    try await machine.reactor.sleeps()
    try await machine.add(5)
    try await eventually("the last change is there") { lists.all.last.map { Self.numbers($0) } == [1, 2, 3, 5] }
    #expect(lists.all.map { Self.numbers($0) } == [[], [1, 2, 3], [1, 2, 3, 5]])
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func `Each loop gets the newest list first, and then each change`() async throws {
    let machine = try await Machine()
    let changes = machine.changes
    let (early, earlyTask) = machine.collect(changes)
    try await eventually("the first list is there") { early.all.count == 1 }
    try await machine.add(1)
    try await eventually("the change is there") { early.all.count == 2 }
    let (late, lateTask) = machine.collect(changes)
    try await eventually("the newest list is there") { late.all.count == 1 }
    try await machine.add(2)
    try await eventually("both have the change") { early.all.count == 3 && late.all.count == 2 }
    #expect(early.all.map { Self.numbers($0) } == [[], [1], [1, 2]])
    #expect(late.all.map { Self.numbers($0) } == [[1], [1, 2]])
    for task in [earlyTask, lateTask] { task.cancel() }
  }

  @Test func `A program that asks rarely gets the newest list, and later changes`() async throws {
    let machine = try await Machine()
    var changes = machine.changes.makeAsyncIterator()
    _ = try await changes.next()
    for round in 0..<3 {
      for number in 1...10 { try await machine.add(10 * round + number) }
      let list = try await changes.next()
      #expect(list.map { Self.numbers($0).count } == 10 * round + 10)
    }
    let waiting = Task { [changes] in
      var changes = changes
      return try await changes.next()
    }
    try await machine.reactor.sleeps()
    try await machine.add(100)
    #expect(try await waiting.value.map { Self.numbers($0).last } == 100)
  }

  @Test func `More changes than the kernel has room to report are seen, and later ones`() async throws {
    let machine = try await Machine()
    let (lists, task) = machine.collect()
    try await eventually("the first list is there") { lists.all.count == 1 }
    try await machine.reactor.sleeps()
    try await machine.reactor.whileBlocked {
      try await machine.namespace.shell([
        "for a in 1 2 3 4 5 6 7 8; do for b in $(seq 1 250); do echo address add 10.0.$a.$b/32 dev lo; done; done"
          + " | ip -batch -"
      ])
    }
    try await eventually("all addresses are there") { lists.all.last.map { $0[0].addresses.count >= 2_002 } == true }
    try await machine.reactor.sleeps()
    try await machine.add(1)
    try await eventually("the change is there") { lists.all.last.map { Self.numbers($0) } == [1] }
    task.cancel()
  }

  // MARK: Ending

  @Test func `A cancelled call ends, and the others and the next one do not`() async throws {
    let machine = try await Machine()
    let changes = machine.changes
    var iterator = changes.makeAsyncIterator()
    _ = try await iterator.next()
    let (others, task) = machine.collect(changes)
    try await eventually("the first list is there") { others.all.count == 1 }
    let cancelled = Task { [iterator] in
      var iterator = iterator
      return try await iterator.next()
    }
    try await machine.reactor.sleeps()
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    try await machine.add(1)
    let list = try await iterator.next()
    #expect(list.map { Self.numbers($0) } == [1])
    try await eventually("the other loop goes on") { others.all.count == 2 }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func `A task that is cancelled before gets no list`() async throws {
    let mayAsk = Gate()
    let task = Task {
      await mayAsk.wait()
      var changes = NetworkInterface.changes().makeAsyncIterator()
      return try await changes.next()
    }
    task.cancel()
    mayAsk.open()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func `The descriptor is opened by the first call, and closed when the sequence and its iterators are gone`()
    async throws
  {
    try await expectNoDescriptors {
      let before = openDescriptors()
      let changes = NetworkInterface.changes()
      for _ in 0..<3 {
        var iterator = changes.makeAsyncIterator()
        let list = try await iterator.next()
        #expect(list?.isEmpty == false)
        #expect(openDescriptors() == before + 1)
      }
    }
  }

  @Test func `A reactor that is shut down ends the loops`() async throws {
    let machine = try await Machine()
    let changes = machine.changes
    let (lists, task) = machine.collect(changes)
    try await eventually("the first list is there") { lists.all.count == 1 }
    try await machine.reactor.sleeps()
    machine.reactor.shutdown()
    await expectError(.reactorShutDown) { try await task.value }
    for changes in [changes, machine.changes] {
      var iterator = changes.makeAsyncIterator()
      await expectError(.reactorShutDown) { _ = try await iterator.next() }
    }
  }

  // MARK: Simulations

  @Test func `A simulated host has two interfaces, which do not change`() async throws {
    try await simulated { simulation in
      let host = simulation.host("a")
      try await host.run {
        let list = try NetworkInterface.all()
        #expect(
          list.map(\.description) == [
            "lo (1) up running loopback 127.0.0.1/8 ::1/128", "eth0 (2) up running multicast 10.0.0.2/8 fd00::2/64",
          ])
        #expect(list[1].addresses.map(\.address) == host.addresses)
        try await expectNoDescriptors {
          let before = openDescriptors()
          let waiting = Task {
            var changes = NetworkInterface.changes().makeAsyncIterator()
            let first = try await changes.next()
            #expect(first == list)
            return try await changes.next()
          }
          try await Task.sleep(for: .seconds(3_600))
          #expect(openDescriptors() == before + 1)
          waiting.cancel()
          await #expect(throws: CancellationError.self) { try await waiting.value }
        }
      }
    }
  }

  @Test func `A loop that gets no descriptor says so, and the next call tries again`() async throws {
    try await simulated { simulation in
      let host = simulation.host("a")
      try await host.run {
        var changes = NetworkInterface.changes().makeAsyncIterator()
        host.setFaults([.fail(.socket, with: .tooManyOpenFiles, probability: 1)])
        await expectError(.tooManyOpenFiles) { _ = try await changes.next() }
        host.setFaults([])
        let list = try await changes.next()
        #expect(list?.count == 2)
      }
    }
  }
}
