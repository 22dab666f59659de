import ActorSockets
import ActorSocketsTesting
import EpollReactor
import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Two things at once: what comes in one piece, what is blocked while something else happens.
@Suite struct CombinationTests {
  /// A server over memory, and its peer.
  private func up(on reactor: Reactor = .shared) async throws -> (peer: HandPeer, server: TLSConnection) {
    let (near, far) = InMemoryConnection.pair(reactor: reactor)
    return try await up(near, far)
  }

  private func up(_ near: any ByteStream, _ far: any ByteStream) async throws -> (peer: HandPeer, server: TLSConnection)
  {
    let server = far.startTLS(try Made.server { $0.keyUpdateLimit = .max }, as: .server)
    let peer = try HandPeer(over: near, try Made.client { $0.keyUpdateLimit = .max })
    try await peer.handshake()
    try await server.handshake()
    return (peer, server)
  }

  @Test func `An end that came with the bytes of a read is told`() async throws {
    let (peer, server) = try await up()
    let line = server.enqueueRead(.until(.crlf))
    try peer.end.write(Array("QUIT\r\n".utf8))
    peer.finish()
    try await peer.flush()
    #expect(try await line.value == Array("QUIT\r\n".utf8))
    try await within("the end is told", seconds: 10) { try await server.peerFinishedWriting() }
  }

  @Test func `An end behind bytes that were not asked for is told when they are read`() async throws {
    let (peer, server) = try await up()
    let bytes = [UInt8](repeating: 1, count: 16_384)
    try peer.end.write(bytes)
    try await peer.flush()
    peer.finish()
    try await peer.flush()
    #expect(try await server.read(exactly: bytes.count) == bytes)
    try await within("the end is told", seconds: 10) { try await server.peerFinishedWriting() }
  }

  @Test func `Key updates of a peer that takes no answer hold up neither the reactor nor the bytes behind them`()
    async throws
  {
    let reactor = Reactor()
    let (peer, server) = try await up(on: reactor)
    let sent = [UInt8](repeating: 1, count: 200_000)
    let write = server.enqueueWrite(sent)
    for _ in 0..<6_000 { peer.end.updateKey() }
    let data = (0..<40_000).map { UInt8(truncatingIfNeeded: $0) }
    for start in stride(from: 0, to: data.count, by: 10_000) { try peer.end.write(Array(data[start..<start + 10_000])) }
    let flood = peer.stream.enqueueWrite(peer.output(), timeout: nil)
    let received = Task {
      var bytes: [UInt8] = []
      while bytes.count < data.count {
        let more = try await server.withBytes(upTo: 65_536, timeout: nil) { shown, consumed in
          consumed = shown.count
          return [UInt8](copying: shown)
        }
        bytes += try #require(more)
      }
      return bytes
    }
    try await within("all is blocked", seconds: 20) {
      try await eventually("the answers wait") { await server.carrier.metrics.bytesReceived > 60_000 }
    }
    var arrived = 0
    try await within("all is exchanged", seconds: 60) {
      while arrived < sent.count {
        peer.input(try #require(await peer.stream.read()))
        while let bytes = try peer.end.read() { arrived += bytes.count }
      }
      try await flood.value
      try await write.value
      #expect(try await received.value == data)
    }
    #expect(arrived == sent.count)
  }

  enum Reset: CaseIterable {
    case remote, byPeerThatSaidItsEnd, local
  }

  @Test(arguments: Reset.allCases)
  func `A write of which some waits encrypted has failed when the connection is reset`(reset: Reset) async throws {
    let (peer, server) = try await up()
    let write = server.enqueueWrite([UInt8](repeating: 1, count: 65_536))
    let next = server.enqueueWrite([2])
    try await eventually("the write is encrypted") { await server.status.writeProgress?.done == 65_536 }
    #expect(await server.status.unsentBytes > 0)
    switch reset {
    case .remote: await peer.stream.abort()
    case .byPeerThatSaidItsEnd:
      peer.finish()
      try await peer.flush()
      await peer.stream.abort()
    case .local: await server.abort()
    }
    for call in [write, next] {
      let error = await #expect(throws: SocketError.self) {
        try await within("the write has failed", seconds: 10) { try await call.value }
      }
      #expect(error?.code == (reset == .local ? .closed : .connectionReset))
    }
    if reset == .byPeerThatSaidItsEnd {
      // Whichever call comes, reads find the end, and writes fail.
      let error = await #expect(throws: SocketError.self) { try await server.write([3]) }
      #expect(error?.code == .connectionReset)
      #expect(try await server.read() == nil)
      await server.close()
      let report = try await server.closed
      guard case .reset = report.reason else { throw Overdue(description: "it ended otherwise: \(report)") }
    }
    #expect(try await server.closed.bytesUnsent > 0)
  }

  private actor Blocker: ReactorActor {
    nonisolated let executor: ReactorExecutor
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }
    func block(_ began: Gate, until end: DispatchSemaphore) {
      began.open()
      end.wait()
    }
  }

  @Test func `An alert that comes together with a reset is the reason`() async throws {
    let reactor = Reactor()
    let (near, far) = try RawSocket.pair()
    let (peer, server) = try await up(
      TCPConnection.adopt(fileDescriptor: near.release()),
      TCPConnection.adopt(fileDescriptor: far.release(), reactor: reactor))
    let read = server.enqueueRead(.upTo(10))
    let (began, end) = (Gate(), DispatchSemaphore(value: 0))
    let blocker = Blocker(reactor)
    let blocking = Task { await blocker.block(began, until: end) }
    await began.wait()
    // It answers garbage with an alert.
    peer.input([23, 3, 3, 0, 32] + [UInt8](repeating: 7, count: 32))
    while (try? peer.end.read()) != nil {}
    let alert = peer.output()
    try await peer.stream.write(alert)
    await peer.stream.abort()
    end.signal()
    await blocking.value
    let error = await #expect(throws: TLSError.self) { try await read.value }
    #expect(error?.code == .alertReceived)
  }
}
