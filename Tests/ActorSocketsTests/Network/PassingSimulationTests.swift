import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread)) struct PassingSimulationTests {
  private func withKernel(limit: Int = 1_000, _ body: (SimulatedNetwork, SimulatedKernel) throws -> Void) throws {
    let network = SimulatedNetwork(now: 0, seed: 1)
    let host = network.addHost("host")
    network.limit(host, to: HostLimits(descriptors: limit))
    let kernel = try #require(network.kernel(of: host))
    try CurrentSystem.using(SystemHolder(network)) { try body(network, kernel) }
  }

  private func pair() throws -> (one: Int32, other: Int32) {
    let ends = try socketEnds()
    return (ends.reading, ends.writing)
  }

  private func send(_ number: Int32, through socket: Int32) -> Transfer {
    let passed = OwnedDescriptor(owning: number)
    let result = BorrowedDescriptor(socket).send([1].span, passing: passed)
    _ = passed.release()
    return result
  }

  private func close(_ numbers: Int32...) { for number in numbers { _ = OwnedDescriptor(owning: number) } }

  private func receive(_ socket: Int32) -> Int32? {
    let inbox = DescriptorInbox(maximum: 10)
    _ = ScratchMemory(count: 100).receive(from: BorrowedDescriptor(socket), inbox)
    return inbox.take()?.release()
  }

  // MARK: The kernel

  @Test func `A socket closes when the last descriptor and the last message that refer to it are gone`() throws {
    try withKernel { _, kernel in
      let (near, far) = try pair()
      let (one, other) = try pair()
      func isOpen() -> Bool {
        var bytes: [UInt8] = []
        if case .wouldBlock = BorrowedDescriptor(other).peek(into: &bytes, atMost: 1) { return true }
        return false
      }
      #expect(send(one, through: near).outcome == "1 bytes")
      close(one)
      #expect(isOpen() && kernel.passing.inFlight.count == 1)
      let again = try #require(receive(far))
      #expect(isOpen() && kernel.passing.inFlight.isEmpty)
      #expect(send(again, through: near).outcome == "1 bytes")
      // recv(2) has no room for the descriptor, and loses it.
      var bytes: [UInt8] = []
      _ = BorrowedDescriptor(far).receive(appendingTo: &bytes, atMost: 9)
      #expect(isOpen() && kernel.passing.inFlight.isEmpty)
      #expect(send(again, through: near).outcome == "1 bytes")
      close(again)
      #expect(isOpen())
      close(far)
      #expect(!isOpen() && kernel.passing.inFlight.isEmpty)
      close(near, other)
      #expect(kernel.files.allSatisfy { $0 == nil })
    }
  }

  @Test func `A duplicate keeps a socket open`() throws {
    try withKernel { _, kernel in
      let (one, other) = try pair()
      let duplicate = try OwnedDescriptor(duplicating: one).release()
      close(one)
      var bytes: [UInt8] = []
      #expect(BorrowedDescriptor(other).receive(appendingTo: &bytes, atMost: 1).outcome == "would block")
      close(duplicate)
      #expect(BorrowedDescriptor(other).receive(appendingTo: &bytes, atMost: 1).outcome == "0 bytes")
      close(other)
      #expect(kernel.files.allSatisfy { $0 == nil })
    }
  }

  @Test func `A registration in epoll belongs to a number and a socket, until the socket closes`() throws {
    try withKernel { _, _ in
      let (near, far) = try pair()
      let (one, other) = try pair()
      let epoll = try makePoller()
      var events = EventBuffer()
      func poll() -> [UInt64] { (0..<epoll.take(&events)).map { events[$0].token }.sorted() }
      try epoll.add(one, token: 1)
      _ = send(one, through: near)
      let second = try #require(receive(far))
      try epoll.add(second, token: 2)
      #expect(poll() == [1, 2])
      _ = BorrowedDescriptor(other).send([1].span)
      #expect(poll() == [1, 2])
      close(one)
      _ = BorrowedDescriptor(other).send([1].span)
      #expect(poll() == [1, 2])
      // The number is free, so no call reaches the first registration.
      epoll.remove(one)
      #expect(throws: SystemError.self) { try epoll.change(one, token: 3, interest: .ofSocket) }
      _ = BorrowedDescriptor(other).send([1].span)
      #expect(poll() == [1, 2])
      // The same number and the same socket: the registration is there again.
      _ = send(second, through: near)
      #expect(receive(far) == one)
      #expect(throws: SystemError.self) { try epoll.add(one, token: 3) }
      epoll.remove(one)
      _ = BorrowedDescriptor(other).send([1].span)
      #expect(poll() == [2])
      close(one, second)
      close(other)
      #expect(poll() == [])
      close(near, far)
    }
  }

  @Test func `A host with few descriptors receives as many as it may, and no more than its limit are in flight`()
    throws
  {
    try withKernel(limit: 12) { _, kernel in
      let (near, far) = try pair()
      for _ in 0..<13 { #expect(send(near, through: near).outcome == "1 bytes") }
      #expect(send(near, through: near).outcome == "\(Errno.tooManyReferences)")
      let inbox = DescriptorInbox(maximum: 10)
      let memory = ScratchMemory(count: 100)
      for _ in 0..<10 {
        #expect(memory.receive(from: BorrowedDescriptor(far), inbox).outcome == "1 bytes")
      }
      #expect(inbox.count == 10 && kernel.nextNumber == nil)
      // The bytes of the message arrive, and then the inbox says that a descriptor is missing.
      #expect(memory.receive(from: BorrowedDescriptor(far), inbox).outcome == "1 bytes")
      #expect(memory.receive(from: BorrowedDescriptor(far), inbox).outcome == "\(Errno.processDescriptors)")
      #expect(kernel.passing.inFlight.count == 2)
      close(near, far)
    }
  }

  @Test func `A socket that is only in its own queue is discarded when a unix socket closes`() throws {
    try withKernel { _, kernel in
      let (near, far) = try pair()
      let (one, other) = try pair()
      // Each of two sockets is in the queue of the other one's peer: a circle of two.
      #expect(send(far, through: one).outcome == "1 bytes")
      #expect(send(other, through: near).outcome == "1 bytes")
      close(far, other)
      #expect(kernel.unreachable.count == 2)
      close(try OwnedDescriptor.datagramSocket(family: SocketKind.unix).release())
      #expect(kernel.passing.inFlight.isEmpty)
      var bytes: [UInt8] = []
      #expect(BorrowedDescriptor(near).receive(appendingTo: &bytes, atMost: 1).outcome == "0 bytes")
      close(near, one)
      #expect(kernel.files.allSatisfy { $0 == nil })
    }
  }

  @Test func `A chain of any length closes`() throws {
    try withKernel(limit: 20_000) { _, kernel in
      let pairs = try (0...5_000).map { _ in try pair() }
      for (pair, next) in zip(pairs, pairs.dropFirst()) {
        // One receiver waits in the queue of the next one.
        #expect(send(pair.other, through: next.one).outcome == "1 bytes")
      }
      #expect(kernel.passing.inFlight.count == 5_000)
      for pair in pairs { close(pair.other) }
      #expect(kernel.passing.inFlight.isEmpty)
      for pair in pairs { close(pair.one) }
      #expect(kernel.files.allSatisfy { $0 == nil })
    }
  }

  private struct Weak {
    weak var socket: SimulatedSocket?
  }

  @Test(arguments: [true, false])
  func `After any calls a host that stops keeps nothing`(isPower: Bool) throws {
    for seed in 0..<seeds(1_000) {
      var sockets: [Weak] = []
      try withKernel { network, kernel in
        let places = try HistorySockets()
        defer { withExtendedLifetime(places) {} }
        _ = History.unix(seed: seed, in: "/run").outcomes(places)
        for case .socket(let socket)? in kernel.files { sockets.append(Weak(socket: socket)) }
        sockets += kernel.passing.inFlight.map { Weak(socket: $0) }
        if isPower { network.stop(0) } else { network.closeAll(of: 0) }
        try #require(kernel.passing.inFlight.isEmpty && kernel.files.allSatisfy { $0 == nil }, "seed \(seed)")
        try #require(sockets.allSatisfy { $0.socket == nil }, "seed \(seed)")
      }
    }
  }

  // MARK: Programs

  private static let path = "/run/actorsockets-simulated/worker.sock"

  private static func configuration() -> TCPListener.Configuration {
    var configuration = TCPListener.Configuration()
    configuration.connection.pendingDescriptorLimit = 10
    return configuration
  }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func `A program hands its connections to another one, which answers`(seed: UInt64) async throws {
    try await simulated(Simulation(seed: seed, order: .random)) { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(20)), loss: 0.1)
      let server = simulation.host("server")
      let listener = try await server.run {
        try TCPListener.bind(to: .unix(path: Self.path), configuration: Self.configuration())
      }
      async let worker: Void = server.run {
        let source = try await listener.accept()
        for number in 0..<5 as Range<UInt8> {
          try #require(try await source.read(exactly: 1) == [number])
          guard let descriptor = await source.takeDescriptor() else { Issue.record("nothing was passed"); return }
          let connection = try TCPConnection.adopt(fileDescriptor: descriptor.release())
          try await connection.write(connection.read(until: .lf))
          await connection.close()
        }
        #expect(try await source.read() == nil)
        await source.close()
        await listener.close()
      }
      let port = try await server.run { try TCPListener.bind(to: .port(80)) }
      async let acceptor = server.run {
        let target = try await TCPConnection.connect(to: .unix(path: Self.path))
        var kept: [TCPConnection] = []
        for number in 0..<5 as Range<UInt8> {
          let connection = try await port.accept()
          kept.append(connection)
          let duplicate = try await connection.withFileDescriptor { try OwnedDescriptor(duplicating: $0).release() }
          try await target.write([number], passing: OwnedDescriptor(owning: duplicate))
        }
        await target.close()
        await port.close()
        return kept
      }
      for number in 0..<5 {
        try await simulation.host("client").run {
          let connection = try await TCPConnection.connect(to: .host("server", port: 80))
          try await connection.write(utf8: "line \(number)\n")
          try #require(try await connection.read(until: .lf) == Array("line \(number)\n".utf8))
          await connection.close()
        }
      }
      try await worker
      // Its own descriptors of the connections are open until now.
      for connection in try await acceptor { await connection.close() }
      try await simulation.assertQuiet(within: .seconds(100))
    }
  }

  @Test func `A socket that was passed and not received is left over, once`() async throws {
    try await simulated { simulation in
      let listener = try TCPListener.bind(to: .unix(path: "@a"), configuration: Self.configuration())
      let client = try await TCPConnection.connect(to: .unix(path: "@a"))
      let server = try await listener.accept()
      await listener.close()
      let passed = try OwnedDescriptor.datagramSocket(family: SocketKind.unix)
      try passed.socket.bind(to: .unix(UnixPath(parsing: "@passed")))
      let number = passed.release()
      let socket = try await client.withFileDescriptor { $0 }
      for _ in 0..<2 {
        let kept = OwnedDescriptor(owning: number)
        _ = BorrowedDescriptor(socket).send([1].span, passing: kept)
        _ = kept.release()
      }
      let error = await #expect(throws: SimulationError.self) { try await simulation.assertQuiet() }
      #expect(error?.waiting.filter { $0.contains("@passed") }.map { $0.contains("is not closed") } == [true])
      _ = OwnedDescriptor(owning: number)
      let later = await #expect(throws: SimulationError.self) { try await simulation.assertQuiet() }
      let lines = later?.waiting.filter { $0.contains("@passed") } ?? []
      #expect(lines.map { $0.contains("was passed to a unix socket and not received") } == [true])
      await client.close()
      await server.close()
      try await simulation.assertQuiet()
    }
  }

  @Test func `A file of Linux cannot be passed: the call throws, and the socket stays usable`() async throws {
    try await simulated { simulation in
      let listener = try TCPListener.bind(to: .unix(path: Self.path), configuration: Self.configuration())
      let client = try await TCPConnection.connect(to: .unix(path: Self.path))
      let server = try await listener.accept()
      let error = await expectError(.invalidArgument) {
        try await client.write([1], passing: OwnedDescriptor(owning: dup(2)))
      }
      #expect(error.description.contains("a simulated socket can only pass other sockets of its simulation"))
      try await client.write([3])
      #expect(try await server.read() == [3])
      let receiver = try UDPEndpoint.bind(to: .unix(path: "@receiver"))
      let sender = try await UDPEndpoint.connect(to: .unix(path: "@receiver"))
      let other = await expectError(.invalidArgument) {
        try await sender.send([1], passing: OwnedDescriptor(owning: dup(2)))
      }
      #expect(other.description == error.description.replacing("write", with: "send"))
      try await sender.send([2])
      #expect(try await receiver.receive().bytes == [2])
    }
  }
}
