import ActorSocketsTesting
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.endsInTime) struct DatagramNameTests {
  /// Asks for nothing that it was not told: a family without an answer waits until it is cancelled.
  private struct Answering: Resolver {
    var answers: [AddressFamily: [SocketAddress]]
    let cancelled = Notes<AddressFamily>()

    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      if let answer = answers[family] { return answer }
      let isCancelled = Gate()
      await withTaskCancellationHandler {
        await isCancelled.wait()
      } onCancel: {
        isCancelled.open()
      }
      cancelled.add(family)
      throw CancellationError()
    }
  }

  private enum Call: CaseIterable {
    case send, connect

    func make(_ client: UDPEndpoint, _ endpoint: Endpoint) async throws {
      switch self {
      case .send: try await client.send([1], to: endpoint)
      case .connect:
        try await client.connect(to: endpoint)
        try await client.send([1])
      }
    }
  }

  private static func configuration(_ resolver: any Resolver) -> UDPEndpoint.Configuration {
    .changed { $0.resolver = resolver }
  }

  private enum Network: String, CaseIterable {
    case noIPv6 = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    case noRoute = "true"

    var dead: String { self == .noIPv6 ? "::1" : "2001:db8::1" }
  }

  @Test(.needsNamespaces, arguments: Network.allCases, Call.allCases)
  private func `Where IPv6 has no route, a datagram to a name goes to its IPv4 address`(
    network: Network, call: Call
  ) async throws {
    let namespace = try await Namespace()
    try await namespace.shell(["ip link set lo up", network.rawValue])
    let reactor = Reactor()
    try await namespace.enter(reactor)
    let resolver = try StaticResolver(["both.example": [network.dead, "127.0.0.1"], "dead.example": [network.dead]])
    let (server, client) = try await namespace.run {
      (
        try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), reactor: reactor),
        try UDPEndpoint.bind(configuration: Self.configuration(resolver), reactor: reactor)
      )
    }
    let port = try #require(server.localAddresses[0].port)
    for name in ["both.example", "both.example"] + (network == .noIPv6 ? ["localhost", ""] : []) {
      try await call.make(client, .host(name, port: port))
      #expect(try await server.receive().bytes == [1])
    }
    await #expect(throws: SocketError.self) { try await call.make(client, .host("dead.example", port: port)) }
  }

  @Test(.inRealTime, arguments: Call.allCases)
  private func `A datagram to a name does not wait for a family that is not answered`(call: Call) async throws {
    let time = ManualTime()
    let resolver = Answering(answers: [.ipv4: [.ipv4(.loopback, port: 0)]])
    let client = try UDPEndpoint.bind(configuration: Self.configuration(resolver), reactor: time.reactor)
    let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let endpoint = Endpoint.host("slow.example", port: try #require(server.localAddresses[0].port))
    let isDone = Gate()
    let first = Task {
      defer { isDone.open() }
      try await call.make(client, endpoint)
    }
    try await eventually("it is sent") {
      await time.advance(by: .milliseconds(10))
      return isDone.isOpen
    }
    try await first.value
    #expect(try await server.receive().bytes == [1])
    try await eventually("the other look-up is cancelled") { resolver.cancelled.all == [.ipv6] }
    // The endpoint remembers the family, and so waits for no time.
    for _ in 0..<3 {
      try await call.make(client, endpoint)
      #expect(try await server.receive().bytes == [1])
    }
    #expect(await client.searches.isEmpty)
  }

  @Test(.inRealTime, arguments: AddressFamily.allCases, Call.allCases)
  private func `Without a preference, the family that is answered first is used at once`(
    family: AddressFamily, call: Call
  ) async throws {
    let loopback = HostName.loopback(family)
    var configuration = Self.configuration(Answering(answers: [family: [loopback]]))
    configuration.addressPreference = .neutral
    let client = try UDPEndpoint.bind(configuration: configuration, reactor: ManualTime().reactor)
    let server = try UDPEndpoint.bind(to: .address(loopback))
    try await call.make(client, .host("one.example", port: try #require(server.localAddresses[0].port)))
    #expect(try await server.receive().bytes == [1])
  }

  @Test func `A connected endpoint sends to a name that has its peer among its addresses`() async throws {
    let resolver = try StaticResolver(["both.example": ["::1", "127.0.0.1"], "other.example": ["::1", "127.0.0.2"]])
    let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let client = try await UDPEndpoint.connect(
      to: .address(server.localAddresses[0]), configuration: Self.configuration(resolver))
    let port = try #require(server.localAddresses[0].port)
    for name in ["both.example", "localhost", ""] {
      try await client.send([1], to: .host(name, port: port))
      #expect(try await server.receive().bytes == [1])
    }
    let error = await expectError(.invalidArgument) {
      try await client.send([1], to: .host("other.example", port: port))
    }
    #expect("\(error)".contains("is connected to"))
  }

  @Test func `An endpoint asks only for families that it has a socket for`() async throws {
    let resolver = Answering(answers: [.ipv4: [.ipv4(.loopback, port: 0)]])
    let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let client = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), configuration: Self.configuration(resolver))
    try await client.send([1], to: .host("a.example", port: try #require(server.localAddresses[0].port)))
    #expect(try await server.receive().bytes == [1])
    #expect(resolver.cancelled.all.isEmpty)
    let folder = try Folder()
    let unix = try UDPEndpoint.bind(
      to: .unix(path: folder.file("socket").path), configuration: Self.configuration(resolver))
    let name = Endpoint.host("a.example", port: 1)
    await expectError(.familyNotSupported) { try await unix.send([1], to: name) }
    await expectError(.familyNotSupported) { try await unix.connect(to: name) }
  }

  @Test(arguments: [true, false])
  func `A call that is cancelled or times out while its name is looked up leaves no deadline`(
    isCancelled: Bool
  ) async throws {
    let time = ManualTime()
    let resolver = Answering(answers: [.ipv4: [.ipv4(.loopback, port: 0)]])
    let client = try UDPEndpoint.bind(configuration: Self.configuration(resolver), reactor: time.reactor)
    let sending = Task {
      try await client.send([1], to: .host("slow.example", port: 9), timeout: .within(.milliseconds(10)))
    }
    // The timeout, and the time that the other family has.
    try await time.waitForDeadlines(2)
    if isCancelled {
      sending.cancel()
      await #expect(throws: CancellationError.self) { try await sending.value }
    } else {
      await time.advance(by: .milliseconds(10))
      await expectError(.timedOut) { try await sending.value }
    }
    #expect(await client.waitingDeadlines == 0)
  }

  @Test func `An endpoint remembers the families of 64 names`() async throws {
    let client = try UDPEndpoint.bind(
      configuration: Self.configuration(ScriptedResolver { _, family in [HostName.loopback(family)] }))
    for number in 0..<64 { try await client.send([1], to: .host("name\(number).example", port: 9)) }
    #expect(await client.searches.familiesThatWorked.count == 64)
    try await client.send([1], to: .host("NAME5.example.", port: 9))
    #expect(await client.searches.familiesThatWorked.count == 64)
    for number in 64..<200 {
      try await client.send([1], to: .host("name\(number).example", port: 9))
      #expect(await client.searches.familiesThatWorked.count <= 64)
    }
  }
}

extension UDPEndpoint {
  fileprivate var waitingDeadlines: Int { registration.reactor.waitingDeadlines }
}
