import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Values that no program needs, but that a configuration file may have. Nothing may trap. Each test is a process of its own, because a
/// trap ends the process.
@Suite struct ExtremeValueTests {
  private static let durations: [Duration] = [
    Duration(attoseconds: .min), .seconds(Int64.min), .nanoseconds(-1), .zero, Duration(attoseconds: 1),
    .nanoseconds(1), .nanoseconds(Int64.max), .nanoseconds(Int64.max) + .nanoseconds(1), .seconds(Int64.max),
    Duration(attoseconds: .max),
  ]
  private static let numbers = [Int.min, -1, 0, 1, 255, 65_536, Int(Int32.max), Int(UInt32.max), .max]

  /// Connects, writes and reads in both directions, and closes. Errors are results, too.
  private static func converse(
    _ client: TCPConnection.Configuration, _ server: TCPListener.Configuration = .init()
  ) async throws {
    try await within("the conversation ends") {
      guard let listener = try? TCPListener.onLoopback(server) else {
        return
      }
      let accepting = Task { try await listener.accept(timeout: .seconds(1)) }
      if let connection = try? await TCPConnection.connect(to: listener.endpoint, configuration: client) {
        let handle = connection.enqueueWrite([1])
        let accepted = try? await accepting.value
        _ = try? await accepted?.read(exactly: 1, timeout: .seconds(1))
        try? await accepted?.enqueueWrite([2]).value
        _ = try? await connection.read(exactly: 1, timeout: .seconds(1))
        try? await handle.value
        // Both at the same time: each waits for the end of the other.
        async let closing: Void? = accepted?.close()
        await connection.close()
        await closing
      }
      accepting.cancel()
      await listener.close()
    }
  }

  @Test func `Every duration of a connection may have any value`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        let changes: [(inout TCPConnection.Configuration) -> Void] = [
          { $0.connectTimeout = duration }, { $0.attemptDelay = duration }, { $0.closeTimeout = duration },
          { $0.liveness.idleTimeout = duration }, { $0.liveness.unacknowledgedTimeout = duration },
          { $0.liveness.keepAlive = .init(idle: duration, interval: duration, count: 1) },
          {
            $0.retry = TCPConnection.Retry()
            $0.retry?.firstDelay = duration
            $0.retry?.maximumDelay = duration
            $0.retry?.tryTimeout = duration
            $0.retry?.maximumTries = 2
          },
        ]
        for change in changes {
          try await Self.converse(.init(change))
          try await Self.converse(.init(), .init { change(&$0.connection) })
        }
      }
    }
  }

  @Test func `Every number of a connection may have any value`() async {
    await #expect(processExitsWith: .success) {
      for number in Self.numbers {
        let changes: [(inout TCPConnection.Configuration) -> Void] = [
          { $0.writeBudget = number }, { $0.pendingDescriptorLimit = number },
          { $0.liveness.keepAlive = .init(idle: .seconds(1), interval: .seconds(1), count: number) },
        ]
        for change in changes {
          let server = TCPListener.Configuration {
            change(&$0.connection)
            $0.backlog = Int32(clamping: number)
          }
          try await Self.converse(.init(change), server)
        }
      }
    }
  }

  @Test func `Every number and duration of an endpoint may have any value`() async {
    await #expect(processExitsWith: .success) {
      for (number, duration) in zip(Self.numbers, Self.durations) {
        let changes: [(inout UDPEndpoint.Configuration) -> Void] = [
          { $0.maximumReceiveSizeIPv4 = number }, { $0.maximumReceiveSizeIPv6 = number },
          { $0.maximumSendSize = number }, { $0.descriptorsPerDatagram = number }, { $0.receiveBufferSize = number },
          { $0.sendBufferSize = number }, { $0.sendBudget = number },
        ]
        for change in changes {
          let local = Endpoint.address(.ipv4(.loopback, port: 0))
          guard let endpoint = try? UDPEndpoint.bind(to: local, configuration: .init(change)) else { continue }
          let address = endpoint.localAddresses[0]
          try? await endpoint.enqueueSend(Datagram([1, 2], to: address), timeout: .within(duration)).value
          _ = try? await endpoint.receive(timeout: .zero)
          await endpoint.close()
        }
      }
    }
  }

  @Test func `A connection sends and closes at the latest time of a manual clock`() async {
    await #expect(processExitsWith: .success) {
      for socket in StreamSocket.allCases {
        try await within("the connection over \(socket.rawValue) is closed") {
          let time = ManualTime()
          let (near, far) = try socket.pair()
          let connection = try TCPConnection.adopt(fileDescriptor: near.release(), reactor: time.reactor)
          await time.advance(by: .seconds(Int64.max))
          // More than fits into the kernel's buffers, so the socket is full in between.
          let size = 8 << 20
          let write = connection.enqueueWrite([UInt8](repeating: 1, count: size))
          #expect(try await far.receive(exactly: size).count == size)
          try await write.value
          async let closed: Void = connection.close()
          #expect(try await far.receiveToEnd() == [])
          far.close()
          await closed
        }
      }
    }
  }

  @Test func `Every number and duration of a connection in memory may have any value`() async {
    await #expect(processExitsWith: .success) {
      for (number, duration) in zip(Self.numbers, Self.durations) {
        var configuration = InMemoryConnection.Configuration()
        configuration.writeBudget = number
        configuration.closeTimeout = duration
        configuration.liveness.idleTimeout = duration
        try await within("the conversation ends") {
          let (client, server) = InMemoryConnection.pair(configuration: configuration)
          try? await client.enqueueWrite([1]).value
          _ = try? await server.read(upTo: 1, timeout: .zero)
          await client.close()
          await server.close()
        }
      }
    }
  }

  @Test func `Every timeout and every limit of a call may have any value`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        for timeout in [Timeout.after(duration), .within(duration), .after(.zero) { _, _ in duration }] {
          try await within("the calls end") {
            let (client, server) = InMemoryConnection.pair()
            let reading = Task { try await server.read(exactly: 1, timeout: timeout) }
            try? await client.write([1], timeout: timeout)
            _ = try? await reading.value
            reading.cancel()
          }
        }
      }
      for number in Self.numbers {
        try await within("the calls end") {
          let (client, server) = InMemoryConnection.pair()
          try await client.write(utf8: "a line\n")
          try await client.finishWriting()
          _ = try? await server.peek(upTo: number)
          _ = try? await server.read(until: .lf, maximumLength: number)
          _ = try? await server.read(exactly: number)
          _ = try? await server.read(upTo: number)
        }
      }
    }
  }

  @Test func `A drain and the limits of a server may have any value`() async {
    await #expect(processExitsWith: .success) {
      for (number, duration) in zip(Self.numbers, Self.durations) {
        try await within("the server ends") {
          let listener = try TCPListener.onLoopback()
          let limits = ServeLimits(connections: number, connectionsPerPeer: number)
          let serving = Task { try await listener.serve(.init(limits: limits, drain: .within(duration))) { _ in } }
          _ = try? RawSocket.connected(to: listener.address)
          _ = try? await serving.stop()
          await listener.drain(within: duration)
          await listener.close()
        }
      }
    }
  }

  @Test func `A simulation accepts any duration`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        try await within("the simulation ends") {
          let simulation = Simulation()
          try await simulation.run {
            simulation.host("other").setClock(offset: duration)
            try await Task.sleep(for: .seconds(1))
            try await simulation.assertQuiet(within: duration)
          }
        }
      }
    }
  }

  @Test(
    arguments: [
      "e" + String(repeating: "\u{301}", count: 40_000), String(repeating: "🇨🇭", count: 20_000), "\u{301}",
    ])
  func `A capture of a connection whose label has very long characters is written`(label: String) async {
    await #expect(processExitsWith: .success) { [label] in
      let file = try TemporaryFile()
      let capture = try PacketCapture(path: file.path, replacing: true)
      let peer = try RawSocket.listening()
      let connection = TCPConnection(to: .address(try peer.address), configuration: .init { $0.capture = capture })
      connection.label = label
      try await within("it is captured") {
        try await connection.write([1])
        await connection.abort()
        try await capture.finish()
      }
      let comment = try #require(try CaptureFile(path: file.path).packets.compactMap(\.comment).first)
      #expect(comment.hasPrefix("connection ") && (1...65_535).contains(comment.utf8.count))
    }
  }

  @Test(arguments: ["", "a", "ab", "aé", "aéb", "🇨🇭", "e\u{301}\u{301}x"], 0...6)
  func `A text is cut between two scalars`(text: String, count: Int) {
    let cut = text.prefix(utf8: count)
    #expect(cut.utf8.count <= count && text.unicodeScalars.starts(with: cut.unicodeScalars))
    let next = text.unicodeScalars.dropFirst(cut.unicodeScalars.count).first
    #expect(next == nil || cut.utf8.count + String(next ?? " ").utf8.count > count)
  }
}
