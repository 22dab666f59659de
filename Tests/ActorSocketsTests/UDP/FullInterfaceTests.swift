import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Interfaces that send slower than a program: each keeps two datagrams of 1,000 bytes, tc-tbf(8), and refuses more with ENOBUFS.
@Suite(.serialized, .needsNamespaces, .endsInTime) struct FullInterfaceTests {
  private static let size = 1_000

  private struct Machine {
    let reactor = Reactor()
    let client: UDPEndpoint
    let server: UDPEndpoint
    let address: SocketAddress

    // The rate is in kilobits a second.
    init(_ transport: DatagramTransport, rate: Int, _ configuration: UDPEndpoint.Configuration = .init()) async throws {
      let namespace = try await Namespace()
      try await namespace.ip("link set lo up")
      try await namespace.shell(["tc qdisc add dev lo root tbf rate \(rate)kbit burst 1600 limit 3000"])
      (client, server) = try await namespace.run { [reactor] in
        (
          try transport.bind(configuration: configuration, reactor: reactor), try transport.bind(reactor: .shared)
        )
      }
      address = try transport.address(of: server)
    }
  }

  @Test(arguments: DatagramTransport.networks, [false, true])
  func `A full queue of an interface is waited for, and all arrive in order`(
    transport: DatagramTransport, hasPeer: Bool
  ) async throws {
    let machine = try await Machine(transport, rate: 400)
    let client = machine.client
    if hasPeer { try await client.connect(to: .address(machine.address)) }
    let destination = hasPeer ? nil : machine.address
    for number in 0..<20 as Range<UInt8> {
      let datagram = Datagram(Array(repeating: number, count: Self.size), to: destination)
      switch number % 3 {
      case 0: try await client.send([datagram])
      case 1: try await client.enqueueSend(datagram).value
      default: try await client.send(datagram)
      }
    }
    for number in 0..<20 as Range<UInt8> {
      #expect(try await machine.server.receive().bytes == Array(repeating: number, count: Self.size))
    }
    #expect(await client.metrics.datagramsUndelivered == 0)
  }

  @Test(arguments: DatagramTransport.networks)
  func `A full queue of an interface lets timeouts pass, and does not keep the reactor busy`(
    transport: DatagramTransport
  ) async throws {
    // So slow that nothing leaves meanwhile.
    let machine = try await Machine(transport, rate: 1)
    let bytes = pattern(Self.size)
    func fill() async throws {
      while true { try await machine.client.send(bytes, to: machine.address, timeout: .zero) }
    }
    await expectError(.timedOut) { try await fill() }
    let start = ContinuousClock.now
    let polls = machine.reactor.metrics.polls
    let timeouts = [Timeout.after(.milliseconds(500)), .within(.milliseconds(500)), .milliseconds(500)]
    let waiting = timeouts.map { timeout in
      Task.immediate { try await machine.client.send(bytes, to: machine.address, timeout: timeout) }
    }
    for task in waiting { await expectError(.timedOut) { try await task.value } }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    // Each try costs two polls: its deadline, and the event of the refusal. With a hot loop there would be thousands.
    #expect(Double(machine.reactor.metrics.polls - polls) < 200 * seconds, "in \(seconds) s")
    #expect(await machine.client.metrics.pendingSends == 0)
  }

  @Test(arguments: DatagramTransport.networks)
  func `A datagram to a full queue of an interface is dropped and counted, if the configuration says so`(
    transport: DatagramTransport
  ) async throws {
    let machine = try await Machine(transport, rate: 1, .changed { $0.fullDestination = .drop })
    for _ in 0..<10 { try await machine.client.send(pattern(Self.size), to: machine.address) }
    let metrics = await machine.client.metrics
    #expect(metrics.datagramsSent + metrics.datagramsUndelivered == 10 && metrics.pendingSends == 0, "\(metrics)")
    #expect(metrics.datagramsUndelivered > 5, "\(metrics)")
  }
}
