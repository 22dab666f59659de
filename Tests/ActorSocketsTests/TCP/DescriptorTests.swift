import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

// Each runs in a process of its own, where no other test opens and closes descriptors.

@Suite(.tags(.manualMemory)) struct DescriptorTests {
  @Test func `A thousand connections leave no descriptor behind`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let listener = try TCPListener.onLoopback()
        for round in 0..<1000 {
          let client = try await TCPConnection.connect(to: listener.endpoint)
          let server = try await listener.accept()
          try await client.write([1])
          #expect(try await server.read() == [1])
          switch round % 4 {
          case 0: await client.abort()
          case 1:
            async let closed: Void = client.close()
            await server.close()
            await closed
          case 2: await server.abort()
          default: break
          }
        }
      }
    }
  }

  @Test func `A thousand connects that are refused leave no descriptor behind`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let address = try unusedAddress()
        for round in 0..<1000 {
          if round % 2 == 0 {
            await expectConnectError(.connectionRefused, to: .address(address))
          } else {
            await expectError(.connectionRefused) { _ = try await TCPConnection(to: .address(address)).read() }
          }
        }
      }
    }
  }

  @Test func `A thousand connects that are cancelled, timed out, aborted or dropped leave no descriptor behind`() async
  {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let hole = try BlackHole()
        for round in 0..<1000 {
          switch round % 5 {
          case 0:
            let connecting = Task.immediate { _ = try await TCPConnection.connect(to: hole.endpoint) }
            connecting.cancel()
            await expectCancellation { try await connecting.value }
          case 1:
            await expectConnectError(.timedOut, to: hole.endpoint, timeout: .milliseconds(1))
          case 2: await TCPConnection(to: hole.endpoint).abort()
          case 3: await TCPConnection(to: hole.endpoint).close()
          default: _ = await TCPConnection(to: hole.endpoint).state
          }
        }
      }
    }
  }

  @Test func `Failed attempts to listen and to adopt leave no descriptor behind`()
    async
  {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let listener = try TCPListener.bind(to: .host("localhost", port: 0))
        for _ in 0..<200 {
          for address in listener.localAddresses {
            await expectError(.addressInUse) { _ = try TCPListener.bind(to: .address(address)) }
          }
          _ = try TCPListener.bind(to: .host("localhost", port: 0))
          let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
          await expectError(.invalidArgument) { _ = try TCPConnection.adopt(fileDescriptor: number) }
          close(number)
          let (connection, _) = try RawSocket.peerOfConnection()
          _ = await connection.state
        }
      }
    }
  }

  @Test func `Ten thousand failures of every kind leave no descriptor behind`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let failures = try Failures()
        var count = 0
        while count < 10_000 { count += try await failures.round() }
      }
    }
  }

  @Test func `Reactors leave neither descriptors nor threads behind, whatever was under way`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let hole = try BlackHole()
        for round in 0..<40 {
          let reactor = Reactor()
          let listener = try TCPListener.onLoopback(on: reactor)
          let client = try await TCPConnection.connect(to: listener.endpoint, reactor: reactor)
          let server = try await listener.accept()
          let connecting = TCPConnection(to: hole.endpoint, reactor: reactor)
          let forever = TCPConnection.Configuration { $0.connectTimeout = .seconds(Int64.max) }
          let patient = TCPConnection(to: hole.endpoint, configuration: forever, reactor: reactor)
          _ = await patient.state
          if round % 2 == 0 {
            let pending = server.enqueueRead(.exactly(1), timeout: .seconds(1000))
            if round % 4 == 0 { reactor.shutdown() } else { await client.abort() }
            await #expect(throws: SocketError.self) { try await pending.value }
          }
          if round % 3 == 0 { await connecting.abort() }
        }
      }
      try await eventually("their threads are gone") { threads(named: "reactor") <= 1 }
    }
  }

  @Test func `A number that is no descriptor has no duplicate`() {
    #expect(throws: SystemError.self) { _ = try OwnedDescriptor(duplicating: -1) }
  }
}

/// Everything that can go wrong before there is a connection or a listener.
private struct Failures {
  private let hole: BlackHole
  private let folder: SocketFolder
  private let used: TCPListener
  private let live: RawSocket
  private let refusing: SocketAddress

  init() throws {
    hole = try BlackHole()
    folder = try SocketFolder()
    used = try TCPListener.onLoopback()
    live = try RawSocket.listening(on: .unix(UnixPath(parsing: folder("live"))))
    refusing = try unusedAddress()
  }

  /// One of each; returns how many.
  func round() async throws -> Int {
    await expectConnectError(.connectionRefused, to: .address(refusing))
    await expectConnectError(.invalidArgument, to: .host("a\0b", port: 1))
    await expectConnectError(.invalidArgument, to: .host("localhost", port: 0))
    await expectConnectError(.pathNotFound, to: .unix(path: folder("none")))
    await expectConnectError(.notASocket, to: .unix(path: folder.path))
    let connecting = Task.immediate { _ = try await TCPConnection.connect(to: hole.endpoint) }
    connecting.cancel()
    await expectCancellation { try await connecting.value }
    await expectConnectError(.timedOut, to: hole.endpoint, timeout: .zero)

    await expectError(.addressInUse) { _ = try TCPListener.bind(to: used.endpoint) }
    await expectError(.addressNotAvailable) { _ = try TCPListener.bind(to: .host("192.0.2.1", port: 0)) }
    await expectError(.hostNotFound) { _ = try TCPListener.bind(to: .host("no-such-interface", port: 0)) }
    await expectError(.addressInUse) { _ = try TCPListener.bind(to: .unix(path: folder("live"))) }
    await expectError(.notASocket) { _ = try TCPListener.bind(to: .unix(path: folder.path)) }
    await expectError(.pathNotFound) { _ = try TCPListener.bind(to: .unix(path: folder("none/socket"))) }
    try RawSocket.bound(to: folder("stale")).close()
    await expectConnectError(.connectionRefused, to: .unix(path: folder("stale")))
    await (try TCPListener.bind(to: .unix(path: folder("stale")))).close()

    for type in [SOCK_STREAM, SOCK_DGRAM] {
      let number = socket(AF_INET, Int32(type.rawValue), 0)
      await expectError(.invalidArgument) { _ = try TCPConnection.adopt(fileDescriptor: number) }
      await expectError(.invalidArgument) { _ = try TCPListener.adopt(fileDescriptor: number) }
      close(number)
    }
    return 18
  }
}
