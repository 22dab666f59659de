import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite struct FaultInjectionTests {
  private static let anyPort = Endpoint.address(.ipv4(.loopback, port: 0))

  // MARK: Transfers

  @Test(arguments: [(StreamSocket.ipv4, false), (.ipv4, true), (.ipv6, false), (.unix, false)])
  func `An echo over short transfers and events that tell of nothing loses no byte`(
    kind: StreamSocket, isEncrypted: Bool
  ) async throws {
    try await within("every seed has its echo") {
      for seed in 0..<seeds(20, atMost: 1_000) {
        let injection = try FaultInjection(FaultInjection.shortTransfers, seed: seed)
        let (client, server, _) = try await injection.pair(kind)
        var pair = Pair(client: client, server: server)
        if isEncrypted { pair = try await pair.encrypted(.v13) }
        let ends = pair
        let echo = Task {
          while let chunk = try await ends.server.read() { try await ends.server.write(chunk) }
          try await ends.server.finishWriting()
        }
        let bytes = pattern(300_000)
        let writing = Task {
          try await ends.client.write(bytes)
          try await ends.client.finishWriting()
        }
        #expect(try await ends.client.readToEnd() == bytes, "seed \(seed)")
        try await writing.value
        try await echo.value
      }
    }
  }

  @Test(arguments: [StreamSocket.ipv4, .unix])
  func `A short transfer that leaves bytes behind is followed by an event for the rest`(kind: StreamSocket) async throws
  {
    try await within("all lines are echoed") {
      let injection = try FaultInjection([.shortReads(probability: 1), .shortWrites(probability: 1)])
      let (client, server, _) = try await injection.pair(kind)
      let echo = Task { for try await line in server.lines { try await server.write(utf8: line + "\n") } }
      for length in 0..<100 {
        let line = Array(repeating: UInt8(ascii: "a"), count: length) + [10]
        try await client.write(line)
        #expect(try await client.read(until: .lf) == line)
      }
      try await client.finishWriting()
      try await echo.value
      // No read of several bytes brings all of them.
      let other = try await injection.pair(kind)
      try await other.0.write(utf8: "ab")
      #expect(try await other.1.read() == Array("a".utf8))
      #expect(try await other.1.read() == Array("b".utf8))
    }
  }

  @Test func `A file is sent over short writes`() async throws {
    try await injecting("the file has arrived", FaultInjection.shortTransfers, seed: 3) { injection in
      let (client, server, _) = try await injection.pair()
      let bytes = pattern(200_000)
      let file = try TemporaryFile(bytes)
      let sending = Task {
        try await client.sendFile(file.source)
        try await client.finishWriting()
      }
      #expect(try await server.readToEnd() == bytes)
      try await sending.value
    }
  }

  // MARK: Calls that fail

  @Test(arguments: [CallFault.Call.send, .receive], [StreamSocket.ipv4, .unix])
  func `A transfer that fails ends its connection with the error of the kernel, and no other`(
    call: CallFault.Call, kind: StreamSocket
  ) async throws {
    try await injecting("the other connection works") { injection in
      // A receive that could bring descriptors is another system call.
      let (client, server, _) = try await injection.pair(kind, waitingDescriptors: 1)
      let (other, otherServer, _) = try await injection.pair(kind)
      try await server.write(utf8: "hello\n")
      injection.setFaults([.fail(call, with: .noBufferSpace, probability: 1)])
      let error = await expectError(.system) {
        try await client.write(utf8: "lost\n")
        _ = try await client.read(until: .lf)
      }
      #expect(error.errno == CallFault.ErrorNumber.noBufferSpace.rawValue)
      injection.setFaults([])
      try await other.write(utf8: "kept\n")
      #expect(try await otherServer.read(until: .lf) == Array("kept\n".utf8))
      for connection in [client, server] { await connection.abort() }
    }
  }

  @Test func `A send that fails within a message of several pieces is told, or made again`() async throws {
    try await within("every write has returned") {
      for seed in 0..<seeds(50, atMost: 1_000) {
        let injection = try FaultInjection([.fail(.send, with: .noMemory, probability: 0.5)], seed: seed)
        let (client, server, _) = try await injection.pair()
        let pieces = (1...10).map { pattern($0) }
        do {
          try await client.write(contentsOf: pieces)
          #expect(try await server.read(exactly: 55) == pieces.flatMap(\.self))
        } catch let error as SocketError {
          #expect(error.errno == CallFault.ErrorNumber.noMemory.rawValue, "seed \(seed): \(error)")
        }
      }
    }
  }

  @Test func `A listener that cannot be made says why, and leaves no descriptor and no file`() async {
    // Each in a process of its own, where reactors of other tests do not close theirs.
    await #expect(processExitsWith: .success) {
      try await Self.failToListen(.fail(.socket, with: .tooManyOpenFiles, probability: 1), .tooManyOpenFiles)
    }
    await #expect(processExitsWith: .success) {
      try await Self.failToListen(.fail(.bind, with: .addressNotAvailable, probability: 1), .addressNotAvailable)
    }
    await #expect(processExitsWith: .success) {
      try await Self.failToListen(.fail(.listen, with: .noMemory, probability: 1), .system)
    }
  }

  private static func failToListen(_ fault: CallFault, _ code: SocketError.Code) async throws {
    let folder = try SocketFolder()
    let endpoints = [anyPort, .unix(path: "@\(folder())"), .unix(path: folder())]
    try await injecting("the reactor is idle", [fault]) { injection in
      try await injection.reactor.sleeps()
      let before = openDescriptors()
      for endpoint in endpoints {
        let error = #expect(throws: SocketError.self) { try TCPListener.bind(to: endpoint, reactor: injection.reactor) }
        #expect(error?.code == code, "\(endpoint)")
      }
      #expect(openDescriptors() == before && folder.names == [])
      // The faults are those of that reactor only, and only until they are set anew.
      for endpoint in endpoints { await (try TCPListener.bind(to: endpoint)).close() }
      injection.setFaults([])
      for endpoint in endpoints { await (try TCPListener.bind(to: endpoint, reactor: injection.reactor)).close() }
    }
  }

  @Test(
    arguments: [
      .fail(.accept, with: .tooManyOpenFiles, probability: 1), .fail(.accept, with: .noMemory, probability: 1),
      .emfile(after: 2),
    ] as [CallFault], [StreamSocket.ipv4, .unix])
  func `A listener that cannot accept pauses, and accepts when it can`(
    fault: CallFault, kind: StreamSocket
  ) async throws {
    try await injecting("the connection is accepted") { injection in
      let listener = try TCPListener.bind(to: .address(kind.freeAddress()), reactor: injection.reactor)
      let target = Endpoint.address(listener.localAddresses[0])
      injection.setFaults([fault])
      if fault == .emfile(after: 2) {
        // One to connect, one to accept.
        let client = try await TCPConnection.connect(to: target, reactor: injection.reactor)
        let server = try await listener.accept()
        let error = await expectError(.tooManyOpenFiles) {
          _ = try await TCPConnection.connect(to: target, reactor: injection.reactor)
        }
        #expect(error.errno == CallFault.ErrorNumber.tooManyOpenFiles.rawValue)
        for connection in [client, server] { await connection.abort() }
      }
      // A peer that is not of this reactor.
      let peer = try await TCPConnection.connect(to: target)
      try await peer.write(utf8: "waits\n")
      let accepting = Task.immediate { try await listener.accept() }
      // It tries again after longer and longer pauses.
      let jobs = injection.reactor.metrics.jobs
      try await eventually("it has tried several times") { injection.reactor.metrics.jobs > jobs + 3 }
      if kind == .ipv4 { #expect(await listener.waitingConnections() == [1]) }
      injection.setFaults([])
      #expect(try await accepting.value.read(until: .lf) == Array("waits\n".utf8))
    }
  }

  @Test func `A reactor at its limit of descriptors accepts when one is closed`() async throws {
    try await injecting("the connections are accepted") { injection in
      let (client, server, listener) = try await injection.pair()
      injection.setLimits(descriptors: 3)
      let target = listener.localAddresses[0]
      await expectError(.tooManyOpenFiles) {
        _ = try await TCPConnection.connect(to: .address(target), reactor: injection.reactor)
      }
      let peer = try RawSocket.connected(to: target)
      let accepting = Task.immediate { try await listener.accept() }
      await client.abort()
      #expect(try await accepting.value.remoteAddress == peer.address)
      injection.setLimits(descriptors: nil)
      await (try await TCPConnection.connect(to: .address(target), reactor: injection.reactor)).abort()
      await server.abort()
    }
  }

  // MARK: Descriptors

  @Test func `No descriptor is left, whoever closes it`() async throws {
    let before = openDescriptors()
    try await within("every connection has ended") {
      for seed in 0..<10 as Range<UInt64> {
        let injection = try FaultInjection(
          FaultInjection.shortTransfers + [
            .fail(.send, with: .connectionReset, probability: 0.02), .fail(.accept, with: .noMemory, probability: 0.2),
            .fail(.connect, with: .networkUnreachable, probability: 0.1),
          ], seed: seed)
        let listener = try TCPListener.bind(to: Self.anyPort, reactor: injection.reactor)
        // Dropped at once, on this thread.
        _ = try TCPListener.bind(to: Self.anyPort, reactor: injection.reactor)
        let serving = Task {
          try await listener.serve { connection in
            for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
          }
        }
        for number in 0..<20 {
          guard
            let client = try? await TCPConnection.connect(
              to: .address(listener.localAddresses[0]), reactor: injection.reactor)
          else { continue }
          do {
            try await client.write(utf8: "\(number)\n", timeout: .seconds(10))
            _ = try await client.read(until: .lf, timeout: .seconds(10))
          } catch is SocketError {}
          if number % 3 == 0 { await client.close() }
        }
        if seed % 2 == 0 { injection.reactor.shutdown() } else { serving.cancel() }
        _ = try? await serving.value
      }
      try await eventually("all descriptors are closed") { openDescriptors() <= before }
    }
  }

  @Test func `Programs see the number of the kernel, and options and the state of TCP are those of the kernel`()
    async throws
  {
    try await injecting("the connection has ended") { injection in
      let (client, server, _) = try await injection.pair()
      let number = try await client.withFileDescriptor { $0 }
      #expect(try BorrowedDescriptor(number).localAddress() == server.remoteAddress)
      try await client.set(.noDelay, to: false)
      #expect(try await client.get(.noDelay) == false)
      #expect(try BorrowedDescriptor(number).get(.noDelay) == 0)
      #expect(await client.metrics.tcp?.state == .established)
    }
  }

  // MARK: What has no faults

  @Test(arguments: [StreamSocket.ipv4, .unix])
  func `A connection that was handed to another reactor does not count against the limit`(kind: StreamSocket)
    async throws
  {
    try await injecting("the lines are echoed") { injection in
      let listener = try TCPListener.bind(to: .address(kind.freeAddress()), reactor: injection.reactor)
      let serving = Task {
        try await listener.serve(.init(reactors: 2)) { connection in
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
      // The listener, and every other connection. The others go to another reactor.
      injection.setLimits(descriptors: 4)
      var clients: [TCPConnection] = []
      for _ in 0..<5 {
        let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
        try await client.write(utf8: "hello\n")
        #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
        clients.append(client)
      }
      for client in clients { await client.close() }
      serving.cancel()
      #expect(try await serving.value.accepted == 5)
    }
  }

  @Test func `Adopted sockets work without faults`() async throws {
    try await injecting("the bytes have arrived", [.fail(.send, with: .noMemory, probability: 1)]) { injection in
      let pair = try await Transport.unix.pair(on: injection.reactor)
      try await pair.client.write(utf8: "hello")
      #expect(try await pair.server.read(exactly: 5) == Array("hello".utf8))
    }
  }

  @Test func `Code on the reactor makes sockets of other reactors without faults`() async throws {
    try await injecting("the line has arrived", [.fail(.send, with: .noMemory, probability: 1)]) { injection in
      let listener = try await Task(executorPreference: injection.reactor) {
        try TCPListener.bind(to: Self.anyPort, reactor: .shared)
      }.value
      let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
      let server = try await listener.accept()
      try await server.write(utf8: "hello\n")
      #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
    }
  }

  // MARK: The reactor

  @Test func `A reactor with nothing to do sleeps, however often events tell of nothing`() async throws {
    try await injecting("the reactor sleeps", [.spuriousReadiness(probability: 1)]) { injection in
      let (client, server, _) = try await injection.pair()
      try await injection.reactor.sleeps()
      try await client.write(utf8: "hello\n")
      #expect(try await server.read(until: .lf) == Array("hello\n".utf8))
      try await injection.reactor.sleeps()
    }
  }

  @Test func `The reactor ends with its last socket`() async throws {
    weak var reactor: Reactor?
    try await injecting("the connections are closed", FaultInjection.shortTransfers) { injection in
      reactor = injection.reactor
      let (client, server, listener) = try await injection.pair()
      await client.abort()
      await server.abort()
      await listener.close()
    }
    try await eventually("the reactor is gone") { reactor == nil }
  }
}
