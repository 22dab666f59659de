import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Calls on sockets of simulated hosts, without any program.
@Suite struct SimulatedKernelTests {
  private static let second = TCPMachine.second

  /// Two hosts in a network.
  private func withHosts(_ body: (SimulatedNetwork) throws -> Void) throws {
    let network = SimulatedNetwork(now: Self.second, seed: 1)
    _ = network.addHost("one")
    _ = network.addHost("two")
    try SimulatedDescriptors.using(SimulatedDescriptors.Place(network)) { try body(network) }
  }

  private func makeSocket(_ network: SimulatedNetwork, on host: Int) throws -> Int32 {
    network.currentHost = { host }
    return try OwnedDescriptor.streamSocket(family: SocketKind.ipv4).release()
  }

  /// A listening socket on port 80 of the second host.
  private func makeListener(_ network: SimulatedNetwork) throws -> Int32 {
    let listener = try makeSocket(network, on: 1)
    #expect(network.setOption(.reuseAddress, of: listener, to: Int32(1).kernelBytes) == 0)
    #expect(network.bind(listener, to: .ipv4(.any, port: 80)) == 0)
    #expect(network.listen(listener, backlog: 10) == 0)
    return listener
  }

  /// Begins to connect the first host to the listening socket.
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

  // MARK: Links

  @Test func `A new link for all hosts concerns those that have talked before`() throws {
    try withHosts { network in
      _ = try makeListener(network)
      let first = try connect(network)
      network.pass(Self.second)
      #expect(state(network, first) == .established)
      network.defaultLink = NetworkLink(latency: .fixed(.seconds(3)))
      #expect(network.link(from: 0, to: 1).latency == .fixed(.seconds(3)))
      let second = try connect(network)
      network.pass(5 * Self.second)
      #expect(state(network, second) == .synSent)
      network.pass(2 * Self.second)
      #expect(state(network, second) == .established)
    }
  }

  @Test func `A cut that is repaired leaves no link of their own to two hosts`() throws {
    try withHosts { network in
      network.cut(true, from: 0, to: 1)
      #expect(network.link(from: 0, to: 1).isCut && !network.link(from: 1, to: 0).isCut)
      network.defaultLink = NetworkLink(loss: 0.5)
      #expect(network.link(from: 0, to: 1) == NetworkLink(loss: 0.5, isCut: true))
      network.cut(false, from: 0, to: 1)
      network.defaultLink = NetworkLink(loss: 0.25)
      #expect(network.link(from: 0, to: 1) == NetworkLink(loss: 0.25))
      // A link of their own that is cut, is repaired as well.
      network.setLink(NetworkLink(loss: 0.125, isCut: true), from: 0, to: 1)
      network.cut(false, from: 0, to: 1)
      network.defaultLink = NetworkLink(isCut: true)
      #expect(network.link(from: 0, to: 1) == NetworkLink(loss: 0.125))
      network.cut(false, from: 1, to: 0)
      #expect(network.link(from: 1, to: 0) == NetworkLink())
    }
  }
}

extension SimulatedNetwork {
  /// Lets a time pass, in nanoseconds.
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
