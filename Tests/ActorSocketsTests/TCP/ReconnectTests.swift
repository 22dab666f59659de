import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// A client that reconnects as the guide says, against servers that end connections in every way.
@Suite(.endsInTime) struct ReconnectTests {
  enum Kind: String, CaseIterable { case plain, tls, inMemory }

  /// The ways in which a server ends a connection, before or within an answer.
  private enum Death: CaseIterable { case abort, close, abortWithin, closeWithin, abortBeneath }

  private struct Server {
    let connect: @Sendable () async throws -> any ByteStream
    let stop: @Sendable () async -> Void
  }

  /// Answers each line with the same line, and ends each connection after a few of them.
  @Sendable private static func handle(_ stream: any ByteStream, _ random: Locked<SeededRandom>) async throws {
    var left: Int
    let death: Death
    (left, death) = random.withLock {
      (Int.random(in: 0...6, using: &$0), Death.allCases[Int.random(in: 0..<Death.allCases.count, using: &$0)])
    }
    for try await line in stream.lines {
      if left > 0 {
        left -= 1
        try await stream.write(utf8: line + "\n")
        continue
      }
      switch death {
      case .abort: await stream.abort()
      case .close: break
      case .abortWithin:
        try await stream.write(utf8: line)
        await stream.abort()
      case .closeWithin: try await stream.write(utf8: line)
      case .abortBeneath: await ((stream as? TLSConnection)?.carrier ?? stream).abort()
      }
      return
    }
  }

  private static func server(_ kind: Kind, _ random: Locked<SeededRandom>) async throws -> Server {
    var options = ServeOptions()
    options.onFailure = { _ in }
    options.drain = .immediately
    let serveOptions = options
    if kind == .inMemory {
      let listener = InMemoryListener()
      let serving = Task { try await listener.serve(serveOptions) { try await handle($0, random) } }
      return Server(
        connect: { try await listener.connect() },
        stop: {
          serving.cancel(); _ = await serving.result
        })
    }
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    let target = Endpoint.address(listener.localAddresses[0])
    let context = try TestContexts.context(.v13)
    let serving = Task {
      if kind == .tls {
        try await listener.serve(tls: context, serveOptions) { try await handle($0, random) }
      } else {
        try await listener.serve(serveOptions) { try await handle($0, random) }
      }
    }
    return Server(
      connect: {
        if kind == .plain { return try await TCPConnection.connect(to: target) }
        return try await TLSConnection.connect(to: target, context: context, serverName: "server.test")
      },
      stop: {
        serving.cancel(); _ = await serving.result
      })
  }

  @Test(arguments: Kind.allCases)
  func `No job is lost while connections end in every way`(kind: Kind) async throws {
    let random = Locked(SeededRandom(seed: 41))
    let server = try await Self.server(kind, random)
    var connection: (any ByteStream)?
    var (done, failures) = (0, 0)
    while done < 200 {
      do {
        let current: any ByteStream
        if let connection { current = connection } else { current = try await server.connect() }
        connection = current
        try await current.write(utf8: "job \(done)\n")
        let answer = try await current.read(until: .lf, timeout: .seconds(30))
        #expect(answer == Array("job \(done)\n".utf8))
        done += 1
      } catch let error as any NetworkError where error.isRetryable {
        #expect(error.isCausedByPeer, "\(error)")
        failures += 1
        await connection?.abort()
        connection = nil
      }
    }
    #expect(failures > 20)
    await connection?.close()
    await server.stop()
  }
}
