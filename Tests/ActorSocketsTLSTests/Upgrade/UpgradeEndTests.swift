import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

/// Where an upgrade is when something else happens.
enum UpgradePhase: String, CaseIterable, CustomTestStringConvertible {
  /// A read that was queued before is not done.
  case waiting
  /// The peer has not answered.
  case handshaking
  /// A server whose client has sent nothing, or only the beginning of its hello.
  case listening
  case partOfHello
  /// A closure decides about the peer.
  case verifying
  case up

  var testDescription: String { rawValue }
}

/// An upgrade in one of its phases.
private struct Upgraded {
  var secure: TLSConnection?
  var plain: (any ByteStream)?
  /// The other end, in plain text.
  let peer: any ByteStream
  /// The other end, if the phase needs one that answers.
  let securePeer: TLSConnection?
  let earlierRead: Pending<[UInt8]>?
  let decided: Gate

  init(_ phase: UpgradePhase, _ carrier: CarrierKind, on reactor: Reactor = .shared) async throws {
    let pair = try await carrier.pair(on: reactor)
    let (asked, decided) = (Gate(), Gate())
    self.decided = decided
    peer = pair.server
    plain = pair.client
    earlierRead = phase == .waiting ? pair.client.enqueueRead(.exactly(1)) : nil
    let context = try Contexts.client {
      if phase != .verifying { return }
      $0.verification = .custom { _ in
        asked.open()
        await decided.wait()
        return true
      }
    }
    if phase == .listening || phase == .partOfHello {
      secure = pair.client.startTLS(try Contexts.server(), as: .server)
      securePeer = nil
      if phase == .partOfHello {
        let plain = pair.client
        try await pair.server.write([22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])
        try await eventually("it has arrived") { await plain.metrics.bytesReceived == 11 }
      }
      return
    }
    secure = pair.client.startTLS(context, as: .client(serverName: "server.test"))
    securePeer = phase == .verifying || phase == .up ? pair.server.startTLS(try Contexts.server(), as: .server) : nil
    if phase == .verifying { await asked.wait() }
    if phase == .up { try await secure?.handshake() }
  }
}

@Suite(.endsInTime) struct UpgradeEndTests {
  @Test(arguments: UpgradePhase.allCases, CarrierKind.allCases)
  func `A connection that is dropped closes, in each phase`(phase: UpgradePhase, carrier: CarrierKind) async throws {
    var upgraded = try await Upgraded(phase, carrier)
    weak let weakly = upgraded.secure
    weak let plain = upgraded.plain
    upgraded.secure = nil
    upgraded.plain = nil
    switch phase {
    case .up: #expect(try await upgraded.securePeer?.read() == nil)
    case .verifying: await #expect(throws: (any Error).self) { try await upgraded.securePeer?.handshake() }
    case .handshaking, .listening, .partOfHello, .waiting: _ = try? await upgraded.peer.readToEnd()
    }
    if let read = upgraded.earlierRead { await expectError(.closed) { _ = try await read.value } }
    await upgraded.securePeer?.close()
    await upgraded.peer.close()
    try await eventually("it has gone") { weakly == nil }
    try await eventually("the plain one has gone") { plain == nil }
    upgraded.decided.open()
  }

  @Test(arguments: UpgradePhase.allCases, CarrierKind.allCases)
  func `A reactor that shuts down ends it, in each phase`(phase: UpgradePhase, carrier: CarrierKind) async throws {
    let reactor = Reactor()
    let upgraded = try await Upgraded(phase, carrier, on: reactor)
    let secure = try #require(upgraded.secure)
    let read = secure.enqueueRead(.exactly(1))
    let waiting = Task { try await secure.read(exactly: 1) }
    reactor.shutdown()
    for operation in [{ try await read.value }, { try await waiting.value }] as [() async throws -> [UInt8]] {
      await #expect(throws: SocketError.self) { _ = try await operation() }
    }
    if let read = upgraded.earlierRead { await expectError(.reactorShutDown) { _ = try await read.value } }
    await expectError(.reactorShutDown) { try await secure.write([1]) }
    await expectError(.reactorShutDown, or: .upgraded) { try await upgraded.plain?.write([1]) }
    _ = try await secure.closed
    upgraded.decided.open()
  }

  @Test(arguments: UpgradePhase.allCases, CarrierKind.allCases)
  func `Closing and aborting either face ends both, in each phase`(
    phase: UpgradePhase, carrier: CarrierKind
  ) async throws {
    for aborts in [false, true] {
      for plainly in [false, true] {
        let upgraded = try await Upgraded(phase, carrier)
        let secure = try #require(upgraded.secure)
        let plain = try #require(upgraded.plain)
        let read = secure.enqueueRead(.exactly(1))
        let ending = Task {
          switch (aborts, plainly) {
          case (false, false): await secure.close()
          case (false, true): await plain.close()
          case (true, false): await secure.abort()
          case (true, true): await plain.abort()
          }
        }
        await expectError(.closed) { _ = try await read.value }
        if let read = upgraded.earlierRead { await expectError(.closed) { _ = try await read.value } }
        // The peer goes when it has heard: a close waits for its end.
        _ = try? await upgraded.securePeer?.read()
        await upgraded.securePeer?.abort()
        if upgraded.securePeer == nil { _ = try? await upgraded.peer.readToEnd() }
        await upgraded.peer.abort()
        await ending.value
        #expect(try await secure.closed.isByUs, "aborted: \(aborts), by the plain face: \(plainly)")
        #expect(try await plain.closed.isByUs, "aborted: \(aborts), by the plain face: \(plainly)")
        upgraded.decided.open()
      }
    }
  }

  @Test(arguments: CarrierKind.allCases)
  func `An upgrade of what is closed fails`(carrier: CarrierKind) async throws {
    let pair = try await carrier.pair()
    await pair.client.abort()
    let secure = pair.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    await expectError(.closed) { try await secure.handshake() }
    // Neither can what was upgraded be upgraded once more.
    let other = try await carrier.pair()
    let first = other.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    let second = other.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    await expectError(.upgraded) { try await second.handshake() }
    let server = other.server.startTLS(try Contexts.server(), as: .server)
    try await first.handshake()
    try await server.handshake()
    await close(first, server)
    await pair.server.close()
  }
}
