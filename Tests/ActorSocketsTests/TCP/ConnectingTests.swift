import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Names with several addresses, and what comes between a name and a connection.
@Suite(.endsInTime) struct ConnectingTests {
  private struct Answering: Resolver {
    let body: @Sendable (String, AddressFamily) async throws -> [SocketAddress]

    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      try await body(name, family)
    }
  }

  private func configuration(_ names: [String: [String]]) throws -> TCPConnection.Configuration {
    try .init { $0.resolver = try StaticResolver(names) }
  }

  private static let loopback: [SocketAddress] = [.ipv6(.loopback, port: 0), .ipv4(.loopback, port: 0)]

  /// A listener for IPv4, and at the same port an IPv6 address that never answers.
  private static func listenerAndHole() throws -> (RawSocket, BlackHole, port: UInt16) {
    for _ in 0..<20 {
      let listener = try RawSocket.listening()
      let port = try #require(try listener.address.port)
      // Somebody may have the port in the other family.
      if let hole = try? BlackHole(at: .ipv6(.loopback, port: port)) { return (listener, hole, port) }
    }
    throw Overdue(description: "no port is free in both families")
  }

  @Test(arguments: AddressFamily.allCases)
  func `A dead address does not stand in the way of a living one`(living: AddressFamily) async throws {
    let listener = try RawSocket.listening(on: living == .ipv4 ? Self.loopback[1] : Self.loopback[0])
    let port = try #require(try listener.address.port)
    let endpoint = Endpoint.host("both.example", port: port)
    let connection = try await TCPConnection.connect(
      to: endpoint, configuration: configuration(["Both.example.": ["::1", "127.0.0.1"]]))
    #expect(try connection.remoteAddress == listener.address)
    #expect(connection.isIPv4 == (living == .ipv4))
  }

  @Test func `A name that only looks like one of the list is not found`() async throws {
    let resolver = try StaticResolver(["Kelvin.example.": ["::1"]])
    #expect(try await resolver.addresses(of: "kelvin.EXAMPLE", family: .ipv6) == [.ipv6(.loopback, port: 0)])
    // U+212A, the sign of the kelvin, is a k in lower case.
    let failure = await #expect(throws: SocketError.self) {
      try await resolver.addresses(of: "\u{212A}elvin.example", family: .ipv6)
    }
    #expect(failure?.code == .hostNotFound)
  }

  @Test func `An address that does not answer is overtaken after the attempt delay, and let go of`() async throws {
    let (listener, hole, port) = try Self.listenerAndHole()
    let time = ManualTime()
    let configuration = try configuration(["both.example": ["::1", "127.0.0.1"]])
    let before = try await settledDescriptors()
    let connection = TCPConnection(
      to: .host("both.example", port: port), configuration: configuration, reactor: time.reactor)
    try await eventually("it is up") {
      await time.advance(by: .milliseconds(10))
      return await connection.state == .open
    }
    try await connection.write([1])
    #expect(connection.isIPv4)
    try await eventually("the other socket is closed") { openDescriptors() <= before + 1 }
    withExtendedLifetime((listener, hole)) {}
  }

  @Test func `A slow look-up of one family is waited for no longer than the resolution delay`() async throws {
    let listener = try RawSocket.listening()
    let port = try #require(try listener.address.port)
    let time = ManualTime()
    let answered = Gate()
    let isCancelled = Gate()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = Answering { _, family in
      if family == .ipv4 {
        defer { answered.open() }
        return [.ipv4(.loopback, port: 0)]
      }
      do {
        try await waitForCancellation()
      } catch {
        isCancelled.open()
        throw error
      }
    }
    let connection = TCPConnection(
      to: .host("slow.example", port: port), configuration: configuration, reactor: time.reactor)
    await answered.wait()
    // What the look-up brought may still be on its way.
    try await eventually("it connects") {
      await time.advance(by: .milliseconds(10))
      return await connection.state == .open
    }
    await isCancelled.wait()
  }

  /// A resolver that never answers, the families that it was asked for, and those whose look-up was cancelled.
  private func unanswered() -> (
    TCPConnection.Configuration, asked: Notes<AddressFamily>, cancelled: Notes<AddressFamily>
  ) {
    let asked = Notes<AddressFamily>()
    let cancelled = Notes<AddressFamily>()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = Answering { _, family in
      asked.add(family)
      defer { cancelled.add(family) }
      try await waitForCancellation()
    }
    return (configuration, asked, cancelled)
  }

  @Test func `A resolver that never answers is left at the timeout, and told so`() async throws {
    let time = ManualTime()
    let (configuration, asked, cancelled) = unanswered()
    let connection = TCPConnection(
      to: .host("slow.example", port: 1), configuration: configuration, reactor: time.reactor)
    try await eventually("both families are asked for") { asked.all.count == 2 }
    await time.advance(by: .seconds(30))
    let error = await expectError(.timedOut) { _ = try await connection.read() }
    #expect(error.description.contains("the look-up of \"slow.example\" did not end within"))
    try await eventually("both are cancelled") { cancelled.all.count == 2 }
    guard case .timedOut = try await connection.closed.reason else { Issue.record("not timed out"); return }
  }

  @Test(arguments: [0, 1, 2])
  func `A connection that is given up while its name is looked up leaves the resolver`(how: Int) async throws {
    let (configuration, asked, cancelled) = unanswered()
    let endpoint = Endpoint.host("slow.example", port: 1)
    var connection: TCPConnection?
    var connecting: Task<Void, any Error>?
    if how == 0 {
      connecting = Task { _ = try await TCPConnection.connect(to: endpoint, configuration: configuration) }
    } else {
      connection = TCPConnection(to: endpoint, configuration: configuration)
    }
    try await eventually("both families are asked for") { asked.all.count == 2 }
    switch how {
    case 0:
      connecting?.cancel()
      await expectCancellation { try await connecting?.value }
    case 1: await connection?.abort()
    default: connection = nil
    }
    try await eventually("both are cancelled") { cancelled.all.count == 2 }
  }

  @Test func `An error of a resolver's own is told as it is, and so is that nothing was found`() async throws {
    struct Broken: Error, CustomStringConvertible { let description = "out of\nluck" }
    var configuration = TCPConnection.Configuration { $0.resolver = Answering { _, _ in throw Broken() } }
    let broken = await expectConnectError(
      .resolverFailed, to: .host("a.example", port: 1), configuration: configuration)
    #expect(broken.description.contains("out of\\nluck") && broken.description.contains("a.example"))
    configuration.resolver = Answering { _, _ in [] }
    await expectConnectError(.hostNotFound, to: .host("a.example", port: 1), configuration: configuration)
    let unknown = try self.configuration([:])
    await expectConnectError(
      .hostNotFound, saying: "nobody.example", to: .host("nobody.example", port: 1), configuration: unknown)
  }

  @Test func `Addresses in text and unix sockets are never asked for`() async throws {
    let asked = Notes<String>()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = Answering { name, _ in
      asked.add(name)
      return []
    }
    let listener = try RawSocket.listening()
    let port = try #require(try listener.address.port)
    for name in ["127.0.0.1", ""] {
      _ = try await TCPConnection.connect(to: .host(name, port: port), configuration: configuration)
    }
    for bad in ["a\0b", String(repeating: "a", count: 254)] {
      await expectConnectError(.invalidArgument, to: .host(bad, port: port), configuration: configuration)
    }
    #expect(asked.all == [])
  }

  @Test func `The system's resolver knows this machine, and addresses in text`() async throws {
    let resolver = SystemResolver()
    let local = try await resolver.addresses(of: "localhost")
    #expect(local.contains { $0.isLoopback })
    let numeric = try await resolver.addresses(of: "192.0.2.1")
    let example = try SocketAddress.ipv4(#require(IPv4Address("192.0.2.1")), port: 0)
    #expect(numeric == [example])
    let addresses: [AddressFamily: [SocketAddress]] = [.ipv6: [.ipv6(.loopback, port: 0)], .ipv4: []]
    for (family, expected) in addresses {
      let found = try await resolver.addresses(of: "::1", family: family)
      #expect(found == expected)
    }
    for name in ["", "a\0b", String(repeating: "a", count: 254)] {
      await expectError(.invalidArgument) { _ = try await resolver.addresses(of: name) }
    }
  }

  @Test func `Only the families that are preferred are tried`() async throws {
    let listeners = try Self.loopback.map { try TCPListener.bind(to: .address($0)) }
    let asked = Notes<AddressFamily>()
    for (preference, index) in [(AddressPreference.ipv4Only, 1), (.ipv6Only, 0)] {
      var configuration = TCPConnection.Configuration()
      configuration.addressPreference = preference
      configuration.resolver = Answering { _, family in
        asked.add(family)
        return Self.loopback
      }
      let bound = try #require(listeners[index].localAddresses.first)
      let endpoint = Endpoint.host("a.example", port: try #require(bound.port))
      let connection = try await TCPConnection.connect(to: endpoint, configuration: configuration)
      #expect(connection.remoteAddress == bound)
      let other = try #require(listeners[1 - index].localAddresses.first)
      await expectConnectError(.invalidArgument, to: .address(other), configuration: configuration)
    }
    #expect(asked.all == [.ipv4, .ipv6])
  }

  @Test func `All sockets of an attempt are closed when it is given up or fails`() async throws {
    let (listener, other, port) = try Self.listenerAndHole()
    let holes = try [BlackHole(at: listener.address, listener), other]
    let configuration = try configuration(["holes.example": ["::1", "127.0.0.1"]])
    let endpoint = Endpoint.host("holes.example", port: port)
    let before = try await settledDescriptors()
    for how in 0..<4 {
      do {
        let time = ManualTime()
        var connection: TCPConnection? = TCPConnection(
          to: endpoint, configuration: configuration, reactor: time.reactor)
        try await eventually("both attempts are under way") {
          await time.advance(by: .milliseconds(10))
          return openDescriptors() == before + Self.reactorDescriptors + 2
        }
        switch how {
        case 0: await connection?.abort()
        case 1: await connection?.close()
        case 2:
          await time.advance(by: .seconds(30))
          let error = await expectError(.timedOut) { try await connection?.write([1]) }
          #expect(error.causes.count == 2)
        default: time.reactor.shutdown()
        }
        connection = nil
        try await eventually("both are closed") { openDescriptors() <= before + Self.reactorDescriptors }
      }
      // The next round counts the descriptors of its own reactor.
      try await eventually("the reactor is gone") { openDescriptors() <= before }
    }
    withExtendedLifetime(holes) {}
  }

  private static let reactorDescriptors = 2

  // MARK: The task-local values that a resolver has

  private enum Request {
    @TaskLocal static var name = "none"
  }

  /// A resolver that notes who asks, and knows no name.
  private struct Noting: Resolver {
    let asked = Notes<String>()

    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      asked.add("\(Request.name) \(family)")
      throw SocketError(.resolverFailed, operation: "look up", detail: "no server is there")
    }
  }

  private enum Call: CaseIterable {
    case connect, initialise, connectByProxy, retry, sendDatagram, connectDatagrams

    var tries: Int { self == .retry ? 3 : 1 }

    func make(_ resolver: Noting) async throws {
      let endpoint = Endpoint.host("a.example", port: 80)
      var configuration = TCPConnection.Configuration { $0.resolver = resolver }
      let datagrams = UDPEndpoint.Configuration { $0.resolver = resolver }
      switch self {
      case .connect: _ = try await TCPConnection.connect(to: endpoint, configuration: configuration)
      case .initialise: _ = try await TCPConnection(to: endpoint, configuration: configuration).read()
      case .connectByProxy:
        configuration.proxy = .socks5(.host("proxy.example", port: 1080))
        _ = try await TCPConnection.connect(to: endpoint, configuration: configuration)
      case .retry:
        configuration.retry = TCPConnection.Retry()
        configuration.retry?.maximumTries = tries
        configuration.retry?.firstDelay = .milliseconds(1)
        _ = try await TCPConnection.connect(to: endpoint, configuration: configuration)
      case .sendDatagram: try await UDPEndpoint.bind(configuration: datagrams).send([1], to: endpoint)
      case .connectDatagrams: _ = try await UDPEndpoint.connect(to: endpoint, configuration: datagrams)
      }
    }
  }

  @Test(arguments: Call.allCases)
  private func `A resolver has the task-local values of the code that connects or sends`(call: Call) async throws {
    let resolver = Noting()
    await Request.$name.withValue("request 1") {
      await expectError(.resolverFailed) { try await call.make(resolver) }
    }
    let expected = AddressFamily.allCases.flatMap { family in
      Array(repeating: "request 1 \(family)", count: call.tries)
    }
    #expect(resolver.asked.all.sorted() == expected.sorted())
  }
}

private func waitForCancellation() async throws -> Never {
  let cancelled = Gate()
  await withTaskCancellationHandler {
    await cancelled.wait()
  } onCancel: {
    cancelled.open()
  }
  throw CancellationError()
}
