import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Errors about earlier datagrams, which the kernel tells the next call.
@Suite(.conformance, .endsInTime) struct StaleErrorTests {
  /// An endpoint whose receive buffer is full: the kernel has no memory for entries of its error queue.
  private static func full(_ transport: DatagramTransport) async throws -> UDPEndpoint {
    let (other, endpoint, address) = try transport.pair { $0.receiveBufferSize = 4096 }
    // The small ones fill what the large ones leave.
    for size in [1000, 1] {
      let dropped = await endpoint.metrics.datagramsDropped
      try await eventually("the buffer is full") {
        try await other.send(pattern(size), to: address)
        return await endpoint.metrics.datagramsDropped > dropped
      }
    }
    return endpoint
  }

  @Test(arguments: DatagramTransport.networks, [true, false])
  func `With a full receive buffer no other destination is blamed for a refusal`(
    transport: DatagramTransport, isBatch: Bool
  ) async throws {
    let client = try await Self.full(transport)
    let server = try transport.bind()
    let (good, dead) = (try transport.address(of: server), try await transport.deadAddress())
    for number in 0..<12 as Range<UInt8> {
      if isBatch {
        try await client.send([Datagram([number], to: dead)])
        try await client.send([Datagram([number], to: good)])
      } else {
        try await client.send([number], to: dead)
        try await client.send([number], to: good)
      }
      #expect(try await server.receive().bytes == [number])
    }
    let report = try #require(await client.errors.next())
    #expect(report.error.code == .connectionRefused && report.error.address == nil, "\(report)")
  }

  @Test(
    .inRealTime, arguments: ["10.0.0.", "fd00::"],
    [nil, .networkUnreachable, .hostUnreachable, .administrativelyProhibited] as [NetworkLink.Rejection?])
  func `Whatever a router reports to a full endpoint, another destination gets its datagrams`(
    network: String, rejection: NetworkLink.Rejection?
  ) async throws {
    let simulation = Simulation()
    try await simulation.run {
      let (client, rejected, good) = (simulation.host("client"), simulation.host("other"), simulation.host("good"))
      var link = simulation.link(from: client, to: rejected)
      link.rejection = rejection
      simulation.setLink(link, from: client, to: rejected)
      let server = try await good.run { try UDPEndpoint.bind(to: .port(53)) }
      try await client.run {
        let endpoint = try UDPEndpoint.bind(
          to: .port(1000), configuration: .changed { $0.receiveBufferSize = 4096 })
        let flood = try await UDPEndpoint.connect(to: .host("localhost", port: 1000))
        for _ in 0..<20 { try await flood.send(pattern(1000)) }
        let idle = try UDPEndpoint.bind()
        for number in 0..<12 as Range<UInt8> {
          try await endpoint.send([0], to: .host(network + "3", port: 9))
          // The report arrives meanwhile.
          _ = try? await idle.receive(timeout: .within(.seconds(1)))
          try await endpoint.send([number], to: .host(network + "4", port: 53))
        }
        let report = await endpoint.errors.next()
        #expect(report != nil && report?.error.address == nil, "\(String(describing: report))")
      }
      try await good.run {
        var received: [UInt8] = []
        while received.count < 12 { received += try await server.receive().bytes }
        #expect(received == Array(0..<12))
      }
    }
  }

  @Test(.inRealTime, arguments: DatagramTransport.networks)
  func `Taking reported errors leaves no pending error, however many there are`(transport: DatagramTransport)
    async throws
  {
    let client = try transport.bind()
    let dead = try await transport.deadAddress()
    let pending = try await client.collectErrors(70, from: dead)
    #expect(pending.taken == 64 && pending.left == 0)
  }
}

extension UDPEndpoint {
  /// Collects errors in the error queue, takes them once, and returns how many were taken, and the pending error after that.
  fileprivate func collectErrors(_ count: Int, from dead: SocketAddress) throws -> (taken: Int, left: Int) {
    let route = try core.route(dead)
    guard let socket = core.routes.sockets[route.index].socket else { return (0, 0) }
    // Every second call only tells the error of the one before.
    let bytes: [UInt8] = [1]
    for _ in 0..<2 * count { _ = socket.send(bytes.span, to: route.destination) }
    let taken = takeReportedErrors()
    return (taken, Int(try socket.get(.pendingError)))
  }
}
