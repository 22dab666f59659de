import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

/// Peers that send without end, to reads whose message never ends and to a connection without reads: memory stays bounded.
///
/// The first test receives 64 MiB, and 1 GiB with a million rounds or more (`ACTORSOCKETS_ROUNDS`).
@Suite struct EndlessInputTests {
  /// The address sanitizer keeps freed memory: 32 MiB by the Makefile's options, and more in each thread.
  private static let keepsFreedMemory = ProcessInfo.processInfo.environment["ASAN_OPTIONS"] != nil
  private static let total = rounds >= 1_000_000 ? 1 << 30 : (keepsFreedMemory ? 512 : 64) << 20
  private static let mostGrowth = (keepsFreedMemory ? 128 : 24) << 20

  /// The bytes of this process that are in memory: proc_pid_statm(5).
  private static func residentBytes() throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
    return Int(text.split(separator: " ")[1]).map { $0 * 4096 } ?? 0
  }

  /// Sends up to this many bytes without a line feed, on a thread of its own, until a send fails.
  private static func flood(_ peer: RawSocket, _ total: Int, _ isOver: Gate) throws -> Locked<Int> {
    let sent = Locked(0)
    try startThread(name: "flood") {
      let block = [UInt8](repeating: 120, count: 65_536)
      while sent.withLock({ $0 }) < total, (try? peer.send(block)) != nil { sent.withLock { $0 += block.count } }
      isOver.open()
    }
    return sent
  }

  /// Reads of a message that never ends.
  private static let reads: [@Sendable (TCPConnection) async throws -> Void] = [
    { _ = try await $0.read(until: .lf, maximumLength: 100_000) },
    { for try await _ in $0.lines(ending: .any, maximumLength: 100_000) {} },
    { for try await _ in $0.messages(until: .crlf, maximumLength: 100_000) {} },
    // A length of 2,021,161,080 bytes.
    { for try await _ in $0.messages(lengthPrefix: .uint32(.big), maximumLength: 100_000) {} },
  ]

  @Test func `A message that never ends is an error at its limit, and takes no memory beyond the limit`() async {
    await #expect(processExitsWith: .success) {
      try await within("everything was sent", seconds: 300) {
        let (connection, peer) = try RawSocket.peerOfConnection()
        let isOver = Gate()
        let before = try Self.residentBytes()
        // The peer sends more than is read: with less than the limit left, a read would wait.
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
        #expect(grown < Self.mostGrowth, "\(grown) bytes more than before")
        await connection.abort()
        await isOver.wait()
      }
    }
  }

  @Test func `Bytes that no read asks for stay with the peer`() async {
    await #expect(processExitsWith: .success) {
      try await within("the sender is stopped", seconds: 300) {
        let (connection, peer) = try RawSocket.peerOfConnection()
        try await connection.narrow()
        // The only read, which shows that the connection is up.
        try peer.send([1])
        #expect(try await connection.read() == [1])
        let before = try Self.residentBytes()
        let isOver = Gate()
        let sent = try Self.flood(peer, 1 << 30, isOver)
        var last = -1
        // The kernel's buffers are full when the count of sent bytes no longer grows.
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
