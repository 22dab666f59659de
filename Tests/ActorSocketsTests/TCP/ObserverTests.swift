import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct ObserverTests {
  private final class Observer: ReactorObserver {
    let notes = Notes<String>()
    let connections = Notes<ObservedConnection>()
    let lags = Notes<Duration>()
    let reactor: Reactor
    let lagThreshold = Duration.milliseconds(60)

    init(on reactor: Reactor) { self.reactor = reactor }

    private func note(_ text: String, _ connection: ObservedConnection) {
      #expect(ReactorExecutor(reactor).isIsolatingCurrentContext() == true)
      notes.add(text)
      connections.add(connection)
    }

    func connected(_ connection: ObservedConnection) { note("connected", connection) }
    func accepted(_ connection: ObservedConnection) { note("accepted", connection) }
    func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {
      note("failed \(error.code)", connection)
    }
    func closed(_ connection: ObservedConnection, _ report: CloseReport) {
      note("closed \(report.reason) \(report.bytesReceived) \(report.bytesSent)", connection)
    }
    func lagged(_ lag: Duration) { lags.add(lag) }

    func story(of id: UInt64) -> [String] {
      zip(notes.all, connections.all).filter { $0.1.id == id }.map(\.0)
    }
  }

  private func observed() -> (Reactor, Observer) {
    let reactor = Reactor()
    let observer = Observer(on: reactor)
    reactor.observer = observer
    return (reactor, observer)
  }

  @Test func `It hears of beginning and end, with addresses and the report`() async throws {
    let (reactor, observer) = observed()
    let listener = try TCPListener.onLoopback(on: reactor)
    let client = try await TCPConnection.connect(to: listener.endpoint, reactor: reactor)
    client.label = "mine"
    let server = try await listener.accept()
    try await client.write(pattern(10))
    #expect(try await server.read(exactly: 10) == pattern(10))
    async let closing: Void = client.close()
    #expect(try await server.read() == nil)
    await server.close()
    await closing
    try await eventually("all is told") { observer.notes.all.count == 4 }
    #expect(observer.story(of: client.id) == ["connected", "closed local 0 10"])
    #expect(observer.story(of: server.id) == ["accepted", "closed remote 10 0"])
    let last = try #require(observer.connections.all.last { $0.id == client.id })
    #expect(last.label == "mine" && last.remoteAddress == listener.address)
    #expect(last.localAddress == client.localAddress)
    #expect("TCPConnection \(last)" == client.description)
    #expect(reactor.observer is Observer)
  }

  @Test func `A connection that does not come up has failed, once`() async throws {
    let (reactor, observer) = observed()
    try await expectConnectError(.connectionRefused, to: .address(unusedAddress()), reactor: reactor)
    let hole = try BlackHole()
    await expectConnectError(.timedOut, to: hole.endpoint, timeout: .within(.milliseconds(20)), reactor: reactor)
    await TCPConnection(to: hole.endpoint, reactor: reactor).close()
    _ = TCPConnection(to: hole.endpoint, reactor: reactor)
    try await eventually("all is told") { observer.notes.all.count == 4 }
    #expect(observer.notes.all == ["failed connectionRefused", "failed timedOut", "failed closed", "failed closed"])
  }

  @Test func `A reset and a dropped connection are closed, too`() async throws {
    let (reactor, observer) = observed()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    peer.reset()
    await expectError(.connectionReset) { _ = try await connection.read() }
    #expect(observer.notes.all == ["connected", "closed reset 0 0"])
    func drop(_ connection: consuming TCPConnection) async throws { try await connection.write([1, 2]) }
    let (dropped, other) = try RawSocket.peerOfConnection(on: reactor)
    let id = dropped.id
    try await drop(dropped)
    #expect(try await other.receive(exactly: 2) == [1, 2])
    other.close()
    withExtendedLifetime(connection) {}
    _ = consume dropped
    try await eventually("the drop is told") { observer.story(of: id) == ["connected", "closed local 0 2"] }
  }

  @Test func `Connections keep the observer they began with`() async throws {
    let (reactor, first) = observed()
    let (one, peer) = try RawSocket.peerOfConnection(on: reactor)
    _ = await one.state
    let second = Observer(on: reactor)
    reactor.observer = second
    let (two, otherPeer) = try RawSocket.peerOfConnection(on: reactor)
    await two.abort()
    await one.abort()
    #expect(first.notes.all == ["connected", "closed local 0 0"])
    #expect(second.notes.all == ["connected", "closed local 0 0"])
    reactor.observer = nil
    let (three, lastPeer) = try RawSocket.peerOfConnection(on: reactor)
    await three.abort()
    #expect(second.notes.all.count == 2 && reactor.observer == nil)
    for socket in [peer, otherPeer, lastPeer] { socket.close() }
  }

  @Test func `A job that blocks the reactor is told, and short jobs are not`() async throws {
    let (reactor, observer) = observed()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    defer { peer.close() }
    for _ in 0..<10 { _ = await connection.state }
    try await connection.withFileDescriptor { _ in _ = poll(nil, 0, 100) }
    try await eventually("it is told") { !observer.lags.all.isEmpty }
    #expect(observer.lags.all.allSatisfy { $0 >= observer.lagThreshold })
    #expect(try #require(observer.lags.all.max()) >= .milliseconds(100))
    await connection.abort()
  }
}
