import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The task-local values that a program's resolver has.
@Suite struct LookUpTaskTests {
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

    /// How often each family is asked for.
    var tries: Int { self == .retry ? 3 : 1 }

    func make(_ resolver: Noting) async throws {
      let endpoint = Endpoint.host("a.example", port: 80)
      var configuration = TCPConnection.Configuration()
      configuration.resolver = resolver
      var datagrams = UDPEndpoint.Configuration()
      datagrams.resolver = resolver
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
    try await within("it fails") {
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
}
