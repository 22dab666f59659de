import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct DatagramFaultInjectionTests {
  private static func pair(
    _ transport: DatagramTransport, on injection: FaultInjection
  ) throws -> (UDPEndpoint, UDPEndpoint, SocketAddress) {
    let receiver = try transport.bind(reactor: injection.reactor)
    return (try transport.bind(reactor: injection.reactor), receiver, try transport.address(of: receiver))
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A send that fails says why, and the next one works`(transport: DatagramTransport) async throws {
    try await injecting("the datagrams have arrived") { injection in
      let (sender, receiver, target) = try Self.pair(transport, on: injection)
      injection.setFaults([.fail(.send, with: .networkUnreachable, probability: 1)])
      for count in 1...2 {
        // One call is a sendto(2), several are a batch.
        do {
          try await sender.send((0..<count).map { Datagram([UInt8($0)], to: target) })
          Issue.record("the send of \(count) datagrams has not failed")
        } catch {
          #expect("\(error)".hasPrefix("\(count) of \(count) ") && "\(error)".contains("unreachable"), "\(error)")
        }
      }
      await expectError(.unreachable) { try await sender.send([1], to: target) }
      injection.setFaults([])
      let sending = Task { for number in 0..<100 as Range<UInt8> { try await sender.send([number], to: target) } }
      var received: [UInt8] = []
      while received.count < 100 { received += try await receiver.receive(upTo: 32).flatMap(\.bytes) }
      #expect(received == Array(0..<100))
      try await sending.value
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Calls that fail and events that tell of nothing lose no datagram that was sent`(transport: DatagramTransport)
    async throws
  {
    try await within("the datagrams have arrived") {
      for seed in 0..<seeds(5, atMost: 1_000) {
        let injection = try FaultInjection(
          [.fail(.send, with: .networkUnreachable, probability: 0.3), .spuriousReadiness(probability: 0.5)], seed: seed)
        let (sender, receiver, target) = try Self.pair(transport, on: injection)
        var sent: [UInt8] = []
        for number in 0..<200 as Range<UInt8> {
          do {
            try await sender.send([number], to: target)
            sent.append(number)
          } catch let error as SocketError {
            #expect(error.code == .unreachable, "seed \(seed)")
          }
          // Unix sockets have room for only a few.
          while sent.count % 8 == 0, let next = sent.first {
            #expect(try await receiver.receive().bytes == [next], "seed \(seed)")
            sent.removeFirst()
          }
        }
        for number in sent { #expect(try await receiver.receive().bytes == [number], "seed \(seed)") }
      }
    }
  }

  @Test func `A send for which the kernel has no memory is made again`() async throws {
    try await injecting("the datagram has arrived") { injection in
      let (sender, receiver, target) = try Self.pair(.ipv4, on: injection)
      injection.setFaults([.fail(.send, with: .noMemory, probability: 1)])
      let sending = Task.immediate { try await sender.send([1], to: target) }
      let jobs = injection.reactor.metrics.jobs
      try await eventually("it has tried several times") { injection.reactor.metrics.jobs > jobs + 3 }
      injection.setFaults([])
      try await sending.value
      #expect(try await receiver.receive().bytes == [1])
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A receive that fails is reported, and no datagram is lost`(transport: DatagramTransport) async throws {
    try await injecting("the datagrams have arrived", [.fail(.receive, with: .noMemory, probability: 1)]) { injection in
      let (sender, receiver, target) = try Self.pair(transport, on: injection)
      let receiving = Task.immediate { try await (receiver.receive().bytes, receiver.receive().bytes) }
      try await sender.send([1], to: target)
      let reports = receiver.errors.makeAsyncIterator()
      #expect(await reports.next()?.error.errno == CallFault.ErrorNumber.noMemory.rawValue)
      injection.setFaults([])
      try await sender.send([2], to: target)
      let received = try await receiving.value
      #expect(received.0 == [1] && received.1 == [2])
    }
  }

  @Test func `An endpoint that cannot be made says why, and leaves no descriptor and no file`() async {
    // Each in a process of its own, where reactors of other tests do not close theirs.
    await #expect(processExitsWith: .success) {
      try await Self.failToBind(.fail(.socket, with: .tooManyOpenFiles, probability: 1), .tooManyOpenFiles)
    }
    await #expect(processExitsWith: .success) { try await Self.failToBind(.emfile(after: 0), .tooManyOpenFiles) }
    await #expect(processExitsWith: .success) {
      try await Self.failToBind(.fail(.bind, with: .addressNotAvailable, probability: 1), .addressNotAvailable)
    }
  }

  private static func failToBind(_ fault: CallFault, _ code: SocketError.Code) async throws {
    let folder = try SocketFolder()
    let injection = try FaultInjection([fault])
    try await injection.reactor.sleeps()
    let before = openDescriptors()
    for endpoint in [Endpoint.port(0), .address(.ipv4(.loopback, port: 0)), .unix(path: ""), .unix(path: folder())] {
      let error = #expect(throws: SocketError.self) { try UDPEndpoint.bind(to: endpoint, reactor: injection.reactor) }
      #expect(error?.code == code, "\(endpoint)")
    }
    #expect(openDescriptors() == before && folder.names == [])
    // The faults are those of that reactor only.
    await (try UDPEndpoint.bind(to: .unix(path: folder()))).close()
  }

  @Test(arguments: [DatagramTransport.ipv4, .unix])
  func `A connect that fails says why`(transport: DatagramTransport) async throws {
    try await within("the datagram has arrived") {
      let injection = try FaultInjection([.fail(.connect, with: .networkUnreachable, probability: 1)])
      let (sender, receiver, target) = try Self.pair(transport, on: injection)
      await expectError(.unreachable) { try await sender.connect(to: .address(target)) }
      injection.setFaults([])
      try await sender.connect(to: .address(target))
      try await sender.send([1])
      #expect(try await receiver.receive().bytes == [1])
    }
  }

  @Test func `Datagram sockets count against the limit until they are closed`() async throws {
    try await injecting("the endpoints are closed") { injection in
      injection.setLimits(descriptors: 1)
      let first = try DatagramTransport.ipv4.bind(reactor: injection.reactor)
      for transport in [DatagramTransport.ipv6, .unix] {
        await expectError(.tooManyOpenFiles) { _ = try transport.bind(reactor: injection.reactor) }
      }
      await first.close()
      await (try DatagramTransport.unix.bind(reactor: injection.reactor)).close()
    }
  }

  @Test func `A refusal of a host is heard, and programs see the number of the kernel`() async throws {
    try await injecting("the refusal is heard", [.spuriousReadiness(probability: 0.5)]) { injection in
      let gone = try DatagramTransport.ipv4.bind()
      let target = gone.localAddresses[0]
      await gone.close()
      let client = try await UDPEndpoint.connect(to: .address(target), reactor: injection.reactor)
      let number = try await client.withFileDescriptor { $0 }
      #expect(try BorrowedDescriptor(number).remoteAddress()?.unmapped == target)
      // The kernel limits how much it reports.
      try await eventually("it is heard") {
        do {
          try await client.send([1])
          _ = try await client.receive(timeout: .milliseconds(100))
          return false
        } catch let error as SocketError {
          return error.code == .connectionRefused
        }
      }
      // Another peer, and another family: connect(2) with AF_UNSPEC.
      let server = try DatagramTransport.ipv6.bind()
      let both = try UDPEndpoint.bind(to: .port(0), reactor: injection.reactor)
      try await both.connect(to: .address(target))
      try await both.connect(to: .address(server.localAddresses[0]))
      try await both.send([2])
      #expect(try await server.receive().bytes == [2])
    }
  }

  @Test func `Groups are joined`() async throws {
    try await injecting("the datagram has arrived", [.spuriousReadiness(probability: 0.5)]) { injection in
      let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 0)), reactor: injection.reactor)
      let group = try IPAddress(parsing: "239.255.7.7")
      try await receiver.join(group, on: .name("lo"))
      let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: injection.reactor)
      try await sender.setMulticastInterface(.name("lo"))
      try await sender.send([1], to: group.socketAddress(port: receiver.localAddresses[0].port ?? 0))
      #expect(try await receiver.receive().bytes == [1])
    }
  }

  @Test func `A reactor with nothing to do sleeps, however often events tell of nothing`() async throws {
    try await injecting("the reactor sleeps", [.spuriousReadiness(probability: 1)]) { injection in
      let (sender, receiver, target) = try Self.pair(.unix, on: injection)
      let receiving = Task.immediate { try await receiver.receive().bytes }
      try await injection.reactor.sleeps()
      try await sender.send([1], to: target)
      #expect(try await receiving.value == [1])
      try await injection.reactor.sleeps()
    }
  }
}
