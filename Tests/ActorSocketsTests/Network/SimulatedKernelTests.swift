import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite struct SimulatedKernelTests {
  private static let second = TCPMachine.second

  private func withHosts(_ body: (SimulatedNetwork) throws -> Void) throws {
    let network = SimulatedNetwork(now: Self.second, seed: 1)
    _ = network.addHost("one")
    _ = network.addHost("two")
    try CurrentSystem.using(SystemHolder(network)) { try body(network) }
  }

  private func makeSocket(_ network: SimulatedNetwork, on host: Int) throws -> Int32 {
    network.currentHost = { host }
    return try OwnedDescriptor.streamSocket(family: SocketKind.ipv4).release()
  }

  private func makeListener(_ network: SimulatedNetwork) throws -> Int32 {
    let listener = try makeSocket(network, on: 1)
    #expect(network.setOption(.reuseAddress, of: listener, to: Int32(1).kernelBytes) == 0)
    #expect(network.bind(listener, to: .ipv4(.any, port: 80)) == 0)
    #expect(network.listen(listener, backlog: 10) == 0)
    return listener
  }

  private func connect(_ network: SimulatedNetwork, from port: UInt16 = 0) throws -> Int32 {
    let client = try makeSocket(network, on: 0)
    if port != 0 { #expect(network.bind(client, to: .ipv4(.any, port: port)) == 0) }
    #expect(network.connect(client, to: Self.server) == -Errno.inProgress)
    return client
  }

  private static let server = SocketAddress.ipv4(IPv4Address(10, 0, 0, 2), port: 80)

  private func state(_ network: SimulatedNetwork, _ number: Int32) -> TCPInfo.State? {
    network.tcpInfo(of: number).info?.state
  }

  // MARK: Faults of a decorator

  @Test func `A decorator's faults hit the sockets of a simulation that were made in it`() throws {
    try withHosts { network in
      let (listener, client) = (try makeListener(network), try connect(network))
      let faults = Faults(FaultPlan([.fail(.bind, with: .noMemory, probability: 1)]))
      try CurrentSystem.using(SystemHolder(FaultySystem(faults, over: network))) {
        network.currentHost = { 1 }
        let epoll = try makePoller()
        network.pass(Self.second)
        guard let accepted = try BorrowedDescriptor(listener).accept()?.take() else {
          throw SystemError(call: "accept4", errno: Errno.wouldBlock)
        }
        try epoll.add(accepted.number, token: 7)
        var events = EventBuffer()
        #expect(epoll.take(&events) == 1)
        let other = try OwnedDescriptor.streamSocket(family: SocketKind.ipv4)
        let failure = #expect(throws: SystemError.self) { try other.socket.bind(to: .ipv4(.any, port: 81)) }
        #expect(failure == SystemError(call: "bind", errno: Errno.noMemory))

        faults.setPlan(FaultPlan([.shortReads(probability: 1)]))
        #expect(BorrowedDescriptor(client).send(Array("hello".utf8).span).outcome == "5 bytes")
        network.pass(Self.second)
        #expect(epoll.take(&events) == 1)
        var bytes: [UInt8] = []
        _ = accepted.socket.receive(appendingTo: &bytes, atMost: 100)
        #expect((1..<5).contains(bytes.count))
        // The rest is announced once more.
        #expect(epoll.take(&events) == 1 && events[0].token == 7)
        faults.setPlan(FaultPlan())
        _ = accepted.socket.receive(appendingTo: &bytes, atMost: 100)
        #expect(bytes == Array("hello".utf8))
        // Sockets that were made before are not hit.
        faults.setPlan(FaultPlan([.fail(.send, with: .noMemory, probability: 1)]))
        #expect(BorrowedDescriptor(client).send([1].span).outcome == "1 bytes")
      }
    }
  }

  // MARK: Leaks

  @Test func `After any calls nothing is left when all sockets are closed and their connections have ended`() throws {
    for seed in 0..<seeds(1_000) {
      let network = SimulatedNetwork(now: Self.second, seed: seed)
      _ = network.addHost("host")
      try CurrentSystem.using(SystemHolder(network)) {
        for history in [History.tcp(seed: seed), .udp(seed: seed)] {
          _ = history.outcomes(try HistorySockets()) {
            network.advance()
            return false
          }
        }
        network.pass(10_000 * Self.second)
        let kernel = try #require(network.kernel(of: 0))
        let isEmpty =
          kernel.ports.isEmpty && kernel.flows.isEmpty && kernel.ended.isEmpty && network.nextTime == nil
          && kernel.files.allSatisfy { $0 == nil }
        try #require(isEmpty, "seed \(seed): \(kernel.ports.keys), \(kernel.flows.keys), \(kernel.ended.keys)")
      }
    }
  }

  @Test func `Attempts that are given up leave nothing behind`() throws {
    try withHosts { network in
      let listener = try makeListener(network)
      let client = try connect(network)
      network.advance()
      // The answers are lost, so the listening host gives up, and so does the client.
      network.links.set(NetworkLink(isCut: true), from: 1, to: 0)
      network.pass(200 * Self.second)
      #expect(network.option(.pendingError, of: client).value == Errno.timedOut)
      network.close(client)
      network.close(listener)
      for host in 0...1 {
        let kernel = try #require(network.kernel(of: host))
        #expect(kernel.flows.isEmpty && kernel.ports.isEmpty && kernel.ended.isEmpty)
      }
      #expect(network.nextTime == nil)
    }
  }

  // MARK: Errors

  @Test func `Without a free descriptor accept fails, also if nothing waits`() throws {
    try withHosts { network in
      let listener = try makeListener(network)
      #expect(network.accept(listener).result == -Errno.wouldBlock)
      network.limit(1, to: HostLimits(descriptors: 1))
      // accept4(2) looks for a descriptor first.
      #expect(network.accept(listener).result == -Errno.processDescriptors)
    }
  }

  @Test(
    arguments: [
      (RawOption.keepAliveIdle, [0, -1, 32_768], 32_767), (.keepAliveInterval, [0, -1, 32_768], 32_767),
      (.keepAliveCount, [0, -1, 128], 127), (.userTimeout, [-1], 0),
    ] as [(RawOption, [Int32], Int32)])
  func `Values that Linux refuses are refused`(option: RawOption, bad: [Int32], good: Int32) throws {
    let real = try OwnedDescriptor.streamSocket(family: SocketKind.ipv4).release()
    defer { _ = OwnedDescriptor(owning: real) }
    try withHosts { network in
      let simulated = try makeSocket(network, on: 0)
      for value in bad + [good] {
        var linux: Int32 = 0
        do throws(SystemError) { try BorrowedDescriptor(real).set(option, to: value) } catch { linux = -error.errno }
        #expect(network.setOption(option, of: simulated, to: value.kernelBytes) == linux, "\(value)")
        #expect((linux == 0) == (value == good))
      }
    }
  }

  // MARK: Descriptors

  @Test func `A descriptor of a killed program does not touch what the host opens later`() throws {
    try withHosts { network in
      let old = try makeListener(network)
      network.closeAll(of: 1)
      let new = try makeListener(network)
      network.close(old)
      #expect(network.option(.isListening, of: old).result == -Errno.badDescriptor)
      #expect(network.option(.isListening, of: new).value == 1)
      let client = try connect(network)
      network.pass(Self.second)
      #expect(state(network, client) == .established)
    }
  }

  @Test func `The connections of a killed program end, and its port is free a minute later`() throws {
    try withHosts { network in
      let listener = try makeListener(network)
      let client = try connect(network)
      network.pass(Self.second)
      #expect(network.accept(listener).result >= 0)
      network.closeAll(of: 1)
      network.pass(Self.second)
      network.close(client)
      network.pass(61 * Self.second)
      for host in 0...1 {
        let kernel = try #require(network.kernel(of: host))
        #expect(kernel.flows.isEmpty && kernel.ports.isEmpty && kernel.ended.isEmpty)
      }
    }
  }

  @Test func `A host can start more often than there are numbers for kernels`() throws {
    try withHosts { network in
      for _ in 0..<20_000 {
        network.stop(1)
        network.start(1)
      }
      let listener = try makeListener(network)
      let client = try connect(network)
      network.pass(Self.second)
      #expect(state(network, client) == .established)
      #expect(network.accept(listener).result >= KernelSlots.firstDescriptor)
    }
  }

  // MARK: Ports

  @Test func `A socket that could not connect can listen at its port, and its port's connections are kept apart`()
    throws
  {
    try withHosts { network in
      let listener = try makeSocket(network, on: 1)
      #expect(network.bind(listener, to: .ipv4(.any, port: 80)) == 0)
      #expect(network.connect(listener, to: .ipv4(IPv4Address(10, 0, 0, 1), port: 9)) == -Errno.inProgress)
      network.pass(Self.second)
      #expect(network.option(.pendingError, of: listener).value == Errno.connectionRefused)
      #expect(network.connect(listener, to: .ipv4(IPv4Address(10, 0, 0, 1), port: 9)) == -Errno.connectionAborted)
      #expect(network.listen(listener, backlog: 100) == 0)
      let clients = try (0..<50).map { _ in try connect(network) }
      network.pass(Self.second)
      for client in clients { #expect(state(network, client) == .established) }
      let kernel = try #require(network.kernel(of: 1))
      // The search for a listening socket looks at these only.
      #expect(kernel.ports[.tcp(80)]?.bound.count == 1)
      let numbers = clients.map { _ in network.accept(listener).result }
      for number in numbers + [listener] { network.close(number) }
      network.pass(100 * Self.second)
      #expect(kernel.ports.isEmpty)
    }
  }

  @Test func `A new descriptor gets the lowest number that is free`() throws {
    try withHosts { network in
      var random = SeededRandom(seed: 1)
      var open: Set<Int32> = []
      for _ in 0..<300 {
        if random.below(3) > 0 {
          let number = network.localNumber(of: try makeSocket(network, on: 0))
          #expect(number == (0...).first { !open.contains($0) })
          open.insert(number)
        } else if let number = open.sorted().randomElement(using: &random) {
          open.remove(number)
          network.close(KernelSlots.firstDescriptor + number)
        }
      }
    }
  }

  // MARK: Earlier connections

  @Test func `A host that started anew connects from the port of an earlier connection`() throws {
    try withHosts { network in
      let listener = try makeListener(network)
      _ = try connect(network, from: 4_000)
      network.pass(Self.second)
      let accepted = network.accept(listener).result
      network.stop(0)
      network.start(0)
      let client = try connect(network, from: 4_000)
      network.pass(2 * Self.second)
      #expect(network.option(.pendingError, of: accepted).value == Errno.connectionReset)
      #expect(state(network, client) == .established)
      #expect(network.accept(listener).result >= 0)
    }
  }

  @Test func `A reset ends the wait for late packets of a connection`() throws {
    try withHosts { network in
      let listener = try makeListener(network)
      let client = try connect(network)
      network.pass(Self.second)
      let accepted = network.accept(listener).result
      network.close(client)
      network.pass(Self.second)
      // The host of the listener starts anew while its end was lost.
      network.links.set(NetworkLink(isCut: true), from: 0, to: 1)
      network.close(accepted)
      network.pass(Self.second / 10)
      network.stop(1)
      network.start(1)
      let kernel = try #require(network.kernel(of: 0))
      #expect(kernel.ended.count == 1)
      let flow = try #require(kernel.ended.keys.first)
      let connection = try #require(kernel.ended[flow])
      kernel.receive(
        Packet(
          source: flow.remote, destination: flow.local,
          content: .segment(Segment(isReset: true, sequence: connection.expected))))
      #expect(kernel.ended.isEmpty && kernel.ports.isEmpty)
    }
  }

  // MARK: Links

  @Test func `A new link for all hosts concerns those that have talked before`() throws {
    try withHosts { network in
      _ = try makeListener(network)
      let first = try connect(network)
      network.pass(Self.second)
      #expect(state(network, first) == .established)
      network.links.defaultLink = NetworkLink(latency: .fixed(.seconds(3)))
      #expect(network.links.link(from: 0, to: 1).latency == .fixed(.seconds(3)))
      let second = try connect(network)
      network.pass(5 * Self.second)
      #expect(state(network, second) == .synSent)
      network.pass(2 * Self.second)
      #expect(state(network, second) == .established)
    }
  }

  @Test func `A cut that is repaired leaves no link of their own to two hosts`() throws {
    try withHosts { network in
      network.links.cut(true, from: 0, to: 1)
      #expect(network.links.link(from: 0, to: 1).isCut && !network.links.link(from: 1, to: 0).isCut)
      network.links.defaultLink = NetworkLink(loss: 0.5)
      #expect(network.links.link(from: 0, to: 1) == NetworkLink(loss: 0.5, isCut: true))
      network.links.cut(false, from: 0, to: 1)
      network.links.defaultLink = NetworkLink(loss: 0.25)
      #expect(network.links.link(from: 0, to: 1) == NetworkLink(loss: 0.25))
      // A link of their own that is cut, is repaired as well.
      network.links.set(NetworkLink(loss: 0.125, isCut: true), from: 0, to: 1)
      network.links.cut(false, from: 0, to: 1)
      network.links.defaultLink = NetworkLink(isCut: true)
      #expect(network.links.link(from: 0, to: 1) == NetworkLink(loss: 0.125))
      network.links.cut(false, from: 1, to: 0)
      #expect(network.links.link(from: 1, to: 0) == NetworkLink())
    }
  }
}

extension SimulatedNetwork {
  func pass(_ time: Int64) {
    let end = now + time
    while let next = nextTime, next <= end {
      now = max(now, next)
      advance()
    }
    now = end
  }
}

extension NetworkLink {
  fileprivate init(loss: Double = 0, isCut: Bool) {
    self.init(loss: loss)
    self.isCut = isCut
  }
}
