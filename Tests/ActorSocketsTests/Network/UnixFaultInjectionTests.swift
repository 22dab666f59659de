import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Faults of the system calls of a real reactor's unix sockets for streams.
@Suite struct UnixFaultInjectionTests {
  private static let shortTransfers: [CallFault] = [
    .shortReads(probability: 0.5), .shortWrites(probability: 0.5), .spuriousReadiness(probability: 0.3),
  ]

  /// A connected pair on a reactor with faults, and its listener.
  private static func pair(
    on injection: FaultInjection, waiting limit: Int = 0
  ) async throws -> (TCPConnection, TCPConnection, TCPListener) {
    var configuration = TCPListener.Configuration()
    configuration.connection.pendingDescriptorLimit = limit
    let endpoint = Endpoint.unix(path: "@faults \(UInt64.random(in: 0 ... .max))")
    let listener = try TCPListener.bind(to: endpoint, configuration: configuration, reactor: injection.reactor)
    let client = try await TCPConnection.connect(to: endpoint, reactor: injection.reactor)
    return (client, try await listener.accept(), listener)
  }

  @Test func `An echo over short transfers and events that tell of nothing loses no byte`() async throws {
    try await within("every seed has its echo") {
      for seed in 0..<seeds(20, atMost: 1_000) {
        let injection = try FaultInjection(Self.shortTransfers, seed: seed)
        let (client, server, _) = try await Self.pair(on: injection)
        let echo = Task {
          while let chunk = try await server.read() { try await server.write(chunk) }
          try await server.finishWriting()
        }
        let bytes = pattern(300_000)
        let writing = Task {
          try await client.write(bytes)
          try await client.finishWriting()
        }
        #expect(try await client.readToEnd() == bytes, "seed \(seed)")
        try await writing.value
        try await echo.value
      }
    }
  }

  @Test func `Reads are short, and an event announces the rest`() async throws {
    try await within("both bytes are read") {
      let injection = try FaultInjection([.shortReads(probability: 1)])
      let (client, server, _) = try await Self.pair(on: injection)
      try await client.write(utf8: "ab")
      #expect(try await server.read() == Array("a".utf8))
      #expect(try await server.read() == Array("b".utf8))
    }
  }

  @Test(arguments: [CallFault.Call.send, .receive])
  func `A transfer that fails ends its connection with the error of the kernel`(call: CallFault.Call) async throws {
    try await within("the calls return") {
      let injection = try FaultInjection()
      let (client, server, _) = try await Self.pair(on: injection)
      try await server.write(utf8: "hello\n")
      injection.setFaults([.fail(call, with: .noMemory, probability: 1)])
      let error = await expectError(.system) {
        try await client.write(utf8: "lost\n")
        _ = try await client.read(until: .lf)
      }
      #expect(error.errno == CallFault.ErrorNumber.noMemory.rawValue)
    }
  }

  @Test(arguments: [
    (CallFault.fail(.socket, with: .tooManyOpenFiles, probability: 1), SocketError.Code.tooManyOpenFiles),
    (.fail(.bind, with: .addressNotAvailable, probability: 1), .addressNotAvailable),
    (.fail(.listen, with: .noMemory, probability: 1), .system),
  ])
  func `A listener that cannot be made says why, and leaves no file`(fault: CallFault, code: SocketError.Code)
    async throws
  {
    let folder = try SocketFolder()
    let injection = try FaultInjection([fault])
    for path in ["@\(folder())", folder()] {
      let error = #expect(throws: SocketError.self) {
        try TCPListener.bind(to: .unix(path: path), reactor: injection.reactor)
      }
      #expect(error?.code == code)
    }
    #expect(folder.names == [])
    injection.setFaults([])
    let listener = try TCPListener.bind(to: .unix(path: folder()), reactor: injection.reactor)
    await listener.close()
  }

  @Test func `A listener's file is one of the kernel: it has permissions, replaces a stale one, and is removed`()
    async throws
  {
    try await within("the connection is accepted") {
      let folder = try SocketFolder()
      try RawSocket.bound(to: folder()).close()
      let injection = try FaultInjection(Self.shortTransfers)
      var configuration = TCPListener.Configuration()
      configuration.permissions = 0o640
      let listener = try TCPListener.bind(
        to: .unix(path: folder()), configuration: configuration, reactor: injection.reactor)
      #expect(FileFacts(folder())?.permissions == 0o640)
      let client = try RawSocket.connected(to: .unix(UnixPath(parsing: folder())))
      let server = try await listener.accept()
      #expect(await listener.waitingConnections() == [0])
      try client.send("hello")
      #expect(try await server.read(exactly: 5) == Array("hello".utf8))
      await listener.close()
      #expect(folder.names == [])
    }
  }

  @Test func `A fault of connect does not let a listener or an endpoint take the path of a live server`() async throws {
    try await within("the connection is accepted") {
      let folder = try SocketFolder()
      let target = Endpoint.unix(path: folder())
      let live = try TCPListener.bind(to: target)
      let refusal = CallFault.ErrorNumber(rawValue: ECONNREFUSED)
      let injection = try FaultInjection([.fail(.connect, with: refusal, probability: 1)])
      await expectError(.addressInUse) { _ = try TCPListener.bind(to: target, reactor: injection.reactor) }
      await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: target, reactor: injection.reactor) }
      let client = try await TCPConnection.connect(to: target)
      await (try live.accept()).close()
      await client.close()
      await live.close()
    }
  }

  @Test func `Descriptors keep their places in the stream, however short the transfers are`() async throws {
    try await within("everything arrives") {
      for seed in 0..<seeds(20, atMost: 1_000) {
        let injection = try FaultInjection(Self.shortTransfers, seed: seed)
        let (client, server, _) = try await Self.pair(on: injection, waiting: 100)
        let writing = Task {
          for index in 0..<20 as Range<UInt8> {
            let ends = try pipeEnds()
            OwnedDescriptor(owning: ends.writing).writeByte(index)
            try await client.write(
              pattern(500, from: Int(index) * 500), passing: OwnedDescriptor(owning: ends.reading))
          }
        }
        for index in 0..<20 as Range<UInt8> {
          #expect(try await server.read(exactly: 500) == pattern(500, from: Int(index) * 500), "seed \(seed)")
          guard let descriptor = await server.takeDescriptor() else {
            Issue.record("no descriptor came with message \(index), seed \(seed)")
            return
          }
          #expect(descriptor.readByte() == index)
        }
        try await writing.value
        let none = await server.takeDescriptor() == nil
        #expect(none)
      }
    }
  }

  @Test func `A send of a descriptor that fails closes it, and the peer gets nothing`() async throws {
    try await within("the send has failed") {
      let injection = try FaultInjection()
      let (client, server, _) = try await Self.pair(on: injection, waiting: 1)
      injection.setFaults([.fail(.send, with: .noMemory, probability: 1)])
      let ends = try pipeEnds()
      let reading = OwnedDescriptor(owning: ends.reading)
      let error = await expectError(.system) {
        try await client.write(Array("hello".utf8), passing: OwnedDescriptor(owning: ends.writing))
      }
      #expect(error.errno == CallFault.ErrorNumber.noMemory.rawValue)
      // The last writing end is closed.
      #expect(reading.readByte() == nil)
      await client.abort()
      #expect(try await server.read() == nil)
      let none = await server.takeDescriptor() == nil
      #expect(none)
    }
  }

  @Test func `A receive that fails is one, also if it could bring descriptors`() async throws {
    try await within("the read has failed") {
      let injection = try FaultInjection()
      let (client, server, _) = try await Self.pair(on: injection, waiting: 1)
      try await client.write(utf8: "hello")
      injection.setFaults([.fail(.receive, with: .noMemory, probability: 1)])
      let error = await expectError(.system) { _ = try await server.read() }
      #expect(error.errno == CallFault.ErrorNumber.noMemory.rawValue)
    }
  }

  @Test func `A connection that was handed to another reactor does not count against the limit`() async throws {
    try await within("the lines are echoed") {
      let injection = try FaultInjection()
      let path = "@handed \(UInt64.random(in: 0 ... .max))"
      let listener = try TCPListener.bind(to: .unix(path: path), reactor: injection.reactor)
      let serving = Task {
        try await listener.serve(.init(reactors: 2)) { connection in
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
      // The listener, and every other connection. The others go to another reactor.
      injection.setLimits(descriptors: 4)
      let target = Endpoint.unix(path: path)
      var clients: [TCPConnection] = []
      for _ in 0..<5 {
        let client = try await TCPConnection.connect(to: target)
        try await client.write(utf8: "hello\n")
        #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
        clients.append(client)
      }
      for client in clients { await client.close() }
      serving.cancel()
      _ = try await serving.value
    }
  }
}
