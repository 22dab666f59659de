import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Descriptors in a row, as a process finds them that was activated; here they begin at a number that is free.
private final class PassedSockets {
  let first: Int32
  let count: Int32

  init(_ sockets: [Int32], from first: Int32) {
    self.first = first
    count = Int32(sockets.count)
    for (index, socket) in sockets.enumerated() {
      #expect(dup2(socket, first + Int32(index)) >= 0)
      close(socket)
    }
  }

  /// What the environment would name.
  func activated(_ names: String?) -> ActivatedSockets {
    let (first, count) = (first, count)
    return ActivatedSockets { () throws(SocketError) in
      try SocketActivation(processID: 77, first: first) {
        switch $0 {
        case "LISTEN_PID": "77"
        case "LISTEN_FDS": "\(count)"
        default: names
        }
      }
    }
  }

  func isInherited(_ index: Int32) -> Bool { fcntl(first + index, F_GETFD) & FD_CLOEXEC == 0 }
  func blocks(_ index: Int32) -> Bool { fcntl(first + index, F_GETFL) & O_NONBLOCK == 0 }

  deinit { for number in first..<(first + count) { close(number) } }
}

@Suite(.endsInTime) struct ActivatedSocketsTests {
  private func datagramSocket() -> Int32 { socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0) }

  @Test func `Each socket is given out once, by its name or with the rest`() throws {
    let web = try (RawSocket.listening(), RawSocket.listening())
    let admin = try RawSocket.listening()
    let addresses = try [web.0, web.1, admin].map { try $0.address }
    let passed = PassedSockets([web.0, web.1, admin].map { $0.release() }, from: 700)
    let sockets = passed.activated("web:web:admin")
    #expect(try sockets.take(named: "web", as: .listener).map(\.address) == Array(addresses[0..<2]))
    expectErrorNow(.invalidArgument, saying: "was taken before") { _ = try sockets.take(named: "web", as: .listener) }
    #expect(try sockets.take(named: nil, as: .listener).map(\.address) == [addresses[2]])
    #expect(try sockets.take(named: nil, as: .listener).isEmpty)
    #expect((0..<3).allSatisfy { !passed.isInherited($0) })
  }

  @Test func `A socket that does not fit is skipped, is refused only if it is asked for by name, and stays`() throws {
    let idle = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    let passed = PassedSockets([datagramSocket(), try RawSocket.listening().release(), idle], from: 710)
    let sockets = passed.activated("dns:web:web")
    // Either all sockets of a name are taken that no other call takes, or the call fails.
    expectErrorNow(.invalidArgument, saying: "descriptor 712") { _ = try sockets.take(named: "web", as: .listener) }
    let missing = "no socket named \"ftp\" was passed, only \"dns\", \"web\""
    expectErrorNow(.invalidArgument, saying: missing) { _ = try sockets.take(named: "ftp", as: .listener) }
    #expect(try sockets.take(named: nil, as: .listener).count == 1)
    #expect((0..<3).allSatisfy { passed.blocks($0) && !passed.isInherited($0) })
  }

  @Test func `A refused configuration loses no socket`() async throws {
    let raw = try (0..<3).map { _ in try RawSocket.listening() }
    let address = try raw[2].address
    let passed = PassedSockets(raw.map { $0.release() }, from: 730)
    let sockets = passed.activated("web:web:admin")
    var configuration = TCPListener.Configuration()
    configuration.proxyProtocol = ProxyProtocol(.required, from: [])
    configuration.proxyProtocol?.timeLimit = .zero
    for name in ["web", nil, "admin"] {
      await expectError(.invalidArgument) {
        _ = try sockets.take(named: name, as: .listener) { try TCPListener.prepare($0, configuration) }
      }
    }
    configuration = TCPListener.Configuration()
    let found = try sockets.take(named: nil, as: .listener) { try TCPListener.prepare($0, configuration) }
    try #require(found.count == 3)
    let listeners = found.map { TCPListener.adopted($0, configuration, .shared) }
    let client = try RawSocket.connected(to: address)
    _ = try await listeners[2].accept()
    client.close()
    for listener in listeners { await listener.close() }
  }

  private func udp() throws -> (number: Int32, address: SocketAddress) {
    let number = datagramSocket()
    try BorrowedDescriptor(number).bind(to: .ipv4(.loopback, port: 0))
    return (number, try #require(try BorrowedDescriptor(number).localAddress()))
  }

  @Test func `Listeners and datagram sockets are given out by the calls that take them`() throws {
    let (dns, web, log) = (try udp(), try RawSocket.listening(), try udp())
    let address = try web.address
    let passed = PassedSockets([dns.number, web.release(), log.number], from: 770)
    let sockets = passed.activated("dns:web:log")
    expectErrorNow(.invalidArgument, saying: "descriptor 770 is a socket for datagrams; use UDPEndpoint.activated") {
      _ = try sockets.take(named: "dns", as: .listener)
    }
    expectErrorNow(.invalidArgument, saying: "descriptor 771 listens; use TCPListener.activated") {
      _ = try sockets.take(named: "web", as: .datagrams)
    }
    #expect(try sockets.take(named: "log", as: .datagrams).map(\.address) == [log.address])
    #expect(try sockets.take(named: nil, as: .datagrams).map(\.address) == [dns.address])
    #expect(try sockets.take(named: nil, as: .datagrams).isEmpty)
    expectErrorNow(.invalidArgument, saying: "was taken before") { _ = try sockets.take(named: "dns", as: .datagrams) }
    #expect(try sockets.take(named: nil, as: .listener).map(\.address) == [address])
  }

  @Test func `Sockets of both kinds can have the same name`() throws {
    let (first, web, second) = (try udp(), try RawSocket.listening(), try udp())
    let address = try web.address
    let passed = PassedSockets([first.number, web.release(), second.number], from: 790)
    let sockets = passed.activated("dns:dns:dns")
    #expect(try sockets.take(named: "dns", as: .listener).map(\.address) == [address])
    expectErrorNow(.invalidArgument, saying: "use UDPEndpoint.activated") {
      _ = try sockets.take(named: "dns", as: .listener)
    }
    #expect(try sockets.take(named: "dns", as: .datagrams).map(\.address) == [first.address, second.address])
    expectErrorNow(.invalidArgument, saying: "was taken before") { _ = try sockets.take(named: "dns", as: .datagrams) }
  }

  @Test func `A refused configuration loses no datagram socket, and then they receive`() async throws {
    let (first, second) = (try udp(), try udp())
    let passed = PassedSockets([first.number, second.number], from: 775)
    let sockets = passed.activated("dns:dns")
    let refused = UDPEndpoint.Configuration.changed { $0.maximumReceiveSizeIPv4 = 0 }
    for name in ["dns", nil] {
      await expectError(.invalidArgument) {
        _ = try sockets.take(named: name, as: .datagrams) { try UDPEndpoint.prepare($0, refused) }
      }
    }
    #expect(passed.blocks(0) && passed.blocks(1))
    let found = try sockets.take(named: "dns", as: .datagrams) { try UDPEndpoint.prepare($0, .init()) }
    let endpoints = found.map { UDPEndpoint.adopted($0, .init(), .shared) }
    #expect(endpoints.map(\.localAddress) == [first.address, second.address])
    let client = try DatagramTransport.ipv4.bind()
    for endpoint in endpoints {
      try await client.send([1], to: try #require(endpoint.localAddress))
      try await endpoint.send(endpoint.receive().reply([2]))
      #expect(try await client.receive().bytes == [2])
      await endpoint.close()
    }
  }

  @Test func `An environment that names what is not open is refused, and nothing is touched`() throws {
    let passed = PassedSockets([try RawSocket.listening().release()], from: 720)
    let sockets = ActivatedSockets { () throws(SocketError) in
      try SocketActivation(processID: 1, first: 720) { $0 == "LISTEN_PID" ? "1" : $0 == "LISTEN_FDS" ? "3" : nil }
    }
    for _ in 0..<2 {
      expectErrorNow(.invalidArgument, saying: "LISTEN_FDS is 3") { _ = try sockets.take(named: nil, as: .listener) }
    }
    #expect(passed.isInherited(0))
  }

  @Test func `A program that was not activated gets no sockets`() throws {
    #expect(try TCPListener.activated().isEmpty)
    #expect(try TCPListener.activated(named: "web").isEmpty)
    #expect(try UDPEndpoint.activated().isEmpty)
    #expect(try UDPEndpoint.activated(named: "dns").isEmpty)
  }

  @Test func `Threads that ask at once get each socket once`() async throws {
    let passed = PassedSockets(try (0..<20).map { _ in try RawSocket.listening().release() }, from: 730)
    let sockets = passed.activated((0..<20).map { "\($0 % 10)" }.joined(separator: ":"))
    let counts = try await withThrowingTaskGroup(of: Int.self) { group in
      for name in 0..<10 {
        for _ in 0..<4 { group.addTask { (try? sockets.take(named: "\(name)", as: .listener).count) ?? 0 } }
      }
      return try await group.reduce(0, +)
    }
    #expect(counts == 20)
  }

  @Test func `A socket is not given out for a name that only looks like its own`() throws {
    let passed = PassedSockets([try RawSocket.listening().release()], from: 760)
    // The same text in two forms, of other bytes.
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}")
    #expect(composed == decomposed)
    let sockets = passed.activated(composed)
    expectErrorNow(.invalidArgument, saying: "no socket named") {
      _ = try sockets.take(named: decomposed, as: .listener)
    }
    #expect(try sockets.take(named: composed, as: .listener).count == 1)
  }
}
