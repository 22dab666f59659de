import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

/// Peers that send without end, to readers whose message never ends and to nobody: memory stays bounded.
///
/// They send 64 MiB, and 1 GiB if `ACTORSOCKETS_ROUNDS` is a million or more.
@Suite struct EndlessInputTests {
  private static let total = rounds >= 1_000_000 ? 1 << 30 : min(64, max(1, rounds * 64 / 100_000)) << 20

  /// The bytes of this process that are in memory: proc_pid_statm(5).
  private static func residentBytes() throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
    return Int(text.split(separator: " ")[1]).map { $0 * 4096 } ?? 0
  }

  /// Sends this many bytes without a line feed, on a thread of its own, as far as it gets.
  private static func flood(_ peer: RawSocket, _ total: Int, _ isOver: Gate) throws -> Guarded<Int> {
    let sent = Guarded(0)
    try startThread(name: "flood") {
      let block = [UInt8](repeating: 120, count: 65_536)
      while sent.withLock({ $0 }) < total, (try? peer.send(block)) != nil { sent.withLock { $0 += block.count } }
      isOver.open()
    }
    return sent
  }

  /// What the reads of a message make of the bytes, which never have an end.
  private static let reads: [@Sendable (TCPConnection) async throws -> Void] = [
    { _ = try await $0.read(until: .lf, maximumLength: 100_000) },
    { for try await _ in $0.lines(ending: .any, maximumLength: 100_000) {} },
    { for try await _ in $0.messages(until: .crlf, maximumLength: 100_000) {} },
    // A length of 2,021,161,080 bytes.
    { for try await _ in $0.messages(lengthPrefix: .uint32(.big), maximumLength: 100_000) {} },
  ]

  @Test func `A message that never ends is an error at its limit, and takes no memory beyond`() async {
    await #expect(processExitsWith: .success) {
      try await within("everything was sent", seconds: 300) {
        let (connection, peer) = try RawSocket.peerOfConnection()
        let isOver = Gate()
        let before = try Self.residentBytes()
        // More than is read: a rest below the limit would be waited for.
        let sent = try Self.flood(peer, .max, isOver)
        var taken = 0
        var largest = 0
        var round = 0
        while taken < Self.total {
          await expectError(.limitExceeded) { try await Self.reads[round % Self.reads.count](connection) }
          // The bytes stay, and one receive may have brought more than the limit.
          let bytes = await connection.takeBuffered()
          largest = max(largest, bytes.count)
          taken += bytes.count
          round += 1
        }
        #expect(sent.withLock { $0 } >= taken - 65_536)
        #expect(largest < 100_000 + 2 * 65_536, "\(largest) bytes were kept")
        let grown = try Self.residentBytes() - before
        #expect(grown < 24 << 20, "\(grown) bytes more than before")
        await connection.abort()
        await isOver.wait()
      }
    }
  }

  @Test func `What nobody reads stays with the peer`() async {
    await #expect(processExitsWith: .success) {
      try await within("the sender is stopped", seconds: 300) {
        let (connection, peer) = try RawSocket.peerOfConnection()
        try await connection.narrow()
        // One read, which shows that the connection is up, and no other.
        try peer.send([1])
        #expect(try await connection.read() == [1])
        let before = try Self.residentBytes()
        let isOver = Gate()
        let sent = try Self.flood(peer, 1 << 30, isOver)
        var last = -1
        // The kernel's buffers are full when nothing more is sent in a while.
        try await eventually("the sender is stopped") {
          let now = sent.withLock { $0 }
          defer { last = now }
          try await Reactor.shared.sleeps()
          return now == last
        }
        #expect(sent.withLock { $0 } < 64 << 20)
        let status = await connection.status
        #expect(status.bufferedBytes == 0)
        let grown = try Self.residentBytes() - before
        #expect(grown < 8 << 20, "\(grown) bytes more than before")
        await connection.abort()
        await isOver.wait()
      }
    }
  }
}
