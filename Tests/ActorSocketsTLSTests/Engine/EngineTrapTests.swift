import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// What OpenSSL requires of its callers. Each test fails if the engine no longer meets its requirement.
@Suite struct EngineTrapTests {
  /// Leaves an error in the thread's error queue, as other code that calls OpenSSL may.
  private func leaveError() {
    let missing = unsafe BIO_new_file("/nothing/is/here", "r")
    unsafe BIO_free(missing)
    #expect(ERR_peek_error() != 0)
  }

  @Test(arguments: TLSVersion.both)
  func `An error that other code left in the thread's error queue makes no call fail`(version: TLSVersion) throws {
    let pair = try EnginePair(client: Contexts.client(version), server: Contexts.server(version))
    pair.exchange {
      leaveError()
      return [$1]
    }
    #expect(pair.isUp)
    for message in [pattern(100), pattern(40_000)] {
      leaveError()
      pair.client.send(message)
      let record = pair.client.takeOutput()
      leaveError()
      pair.server.take(Array(record.prefix(50)))
      leaveError()
      pair.server.take(Array(record.dropFirst(50)))
    }
    #expect(pair.server.received == pattern(100) + pattern(40_000))
    leaveError()
    pair.client.finish()
    leaveError()
    pair.server.take(pair.client.takeOutput())
    #expect(pair.server.hasEnded && pair.server.failure == nil && pair.client.failure == nil)
    OpenSSLErrors.clear()
  }

  @Test(arguments: TLSVersion.both)
  func `Errors that other code left in the thread's queue do not explain a failure`(version: TLSVersion) throws {
    let writing = try EnginePair.up(version)
    writing.client.finish()
    leaveError()
    writing.client.send([1])
    #expect(writing.client.failure?.reason == "protocol is shutdown")
    let shaking = try EngineEnd(greeting: Contexts.client(version))
    leaveError()
    shaking.finish()
    #expect(shaking.engine.failure?.reason == "shutdown while in init")
    OpenSSLErrors.clear()
  }

  @Test(arguments: TLSVersion.both)
  func `After a fatal failure the alert is the last thing that is sent`(version: TLSVersion) throws {
    for isRecord in [false, true] {
      let pair = try EnginePair(client: Contexts.client(version), server: Contexts.server(version))
      pair.exchange { isRecord || $0 == .toClient ? [$1] : [[22, 3, 3, 0, 4, 9, 9, 9, 9]] }
      if isRecord {
        pair.server.take(pair.client.damagedRecord())
        pair.client.take(pair.server.takeOutput())
        #expect(pair.server.failure?.code == .protocolError && pair.server.failure?.alert == "bad_record_mac")
        #expect(pair.client.failure?.code == .alertReceived && pair.client.failure?.alert == "bad_record_mac")
      }
      #expect(pair.server.failure != nil)
      let failure = pair.server.failure?.description
      pair.server.finish()
      pair.server.send([1])
      #expect(pair.server.takeOutput().isEmpty)
      #expect(pair.server.engine.failure?.description == failure)
    }
  }

  /// SSL_CTX_set_mode(3). Without the last of the modes, an idle connection keeps 34 KB of buffers.
  @Test func `Connections write in parts, from any memory, and give their buffers back`() throws {
    let contexts = [
      (try Contexts.client(), TLSRole.client(serverName: "server.test")), (try Contexts.server(), .server),
    ]
    for (context, role) in contexts {
      let state = TLSHandshakeState(context, role)
      // SAFETY: the connection is freed once.
      let ssl = try unsafe context.makeSSL(for: state)
      defer { unsafe SSL_free(ssl) }
      let mode = Int32(truncatingIfNeeded: unsafe SSL_ctrl(ssl, SSL_CTRL_MODE, 0, nil))
      for wanted in [SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_RELEASE_BUFFERS] {
        #expect(mode & Int32(wanted) != 0)
      }
    }
  }

  @Test(arguments: TLSVersion.both)
  func `An empty write makes no record`(version: TLSVersion) throws {
    let pair = try EnginePair.up(version)
    #expect(pair.client.write([]) { $0 } == 0)
    #expect(!pair.client.engine.hasOutput && pair.client.failure == nil)
  }

  @Test(arguments: TLSVersion.both)
  func `All records that arrived together are decrypted at once`(version: TLSVersion) throws {
    let pair = try EnginePair.up(version)
    for _ in 0..<3 { pair.client.send(pattern(10)) }
    var fed = 0
    var received: [UInt8] = []
    var engine = try TLSEngine(Contexts.server(version), as: .server)
    swap(&engine, &pair.server.engine)
    _ = engine.read(feeding: pair.client.takeOutput().span, &fed, appendingTo: &received)
    #expect(received == pattern(10) + pattern(10) + pattern(10))
    swap(&engine, &pair.server.engine)
  }
}
