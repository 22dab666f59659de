import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct SocketIdentityTests {
  private func expectIdentity<Socket: Hashable & Identifiable>(_ first: Socket, _ second: Socket) {
    #expect(first == first && first != second)
    #expect(Set([first, second, first]).count == 2)
    #expect(first.id != second.id)
  }

  @Test func `Sockets of every kind are equal only to themselves`() async throws {
    let (first, second) = InMemoryConnection.pair()
    expectIdentity(first, second)
    expectIdentity(InMemoryListener(), InMemoryListener())
    expectIdentity(try UDPEndpoint.bind(), try UDPEndpoint.bind())
    let listeners = try (0..<2).map { _ in try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0))) }
    expectIdentity(listeners[0], listeners[1])
    let targets = listeners.map { Endpoint.address($0.localAddresses[0]) }
    expectIdentity(try await TCPConnection.connect(to: targets[0]), try await TCPConnection.connect(to: targets[1]))
    let context = try TestContexts.context(.v13)
    expectIdentity(first.startTLS(context, as: .server), second.startTLS(context, as: .server))
  }

  @Test func `Listeners and endpoints say their port, and addresses their IP address`() throws {
    let listener = try TCPListener.bind(to: .port(0))
    #expect(listener.port == listener.localAddresses[0].port && listener.port != 0)
    let endpoint = try UDPEndpoint.bind()
    #expect(endpoint.port == endpoint.localAddress?.port && endpoint.port != 0)
    #expect(InMemoryListener().port == nil)
    let unix = try UDPEndpoint.bind(to: .unix(path: ""))
    #expect(unix.port == nil && unix.localAddress?.ipAddress == nil)
    #expect(SocketAddress.ipv4(.loopback, port: 1).ipAddress == .ipv4(.loopback))
    #expect(SocketAddress.ipv6(.loopback, port: 1).ipAddress == .ipv6(.loopback))
    endpoint.label = "clock"
    #expect(endpoint.label == "clock" && "\(endpoint)".contains("clock"))
  }
}
