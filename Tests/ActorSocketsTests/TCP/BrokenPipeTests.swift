import ActorSockets
import EpollReactor
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

/// No send on a stream raises SIGPIPE: all have MSG_NOSIGNAL. Datagram sockets raise no signal in any case: send(2).
///
/// The reactor's thread blocks all signals, so a signal that was raised for the thread does not end the process. The signal
/// stays pending, and /proc shows it.
@Suite struct BrokenPipeTests {
  enum Path: CaseIterable {
    case write, gathered, enqueued, passing

    func send(on connection: TCPConnection) async throws {
      switch self {
      case .write: try await connection.write([1])
      case .gathered: try await connection.write(contentsOf: [[1], [2, 3]])
      case .enqueued: try await connection.enqueueWrite([1]).value
      case .passing: try await connection.write([1], passing: OwnedDescriptor(owning: dup(2)))
      }
    }
  }

  @Test(arguments: Path.allCases)
  func `A write to a peer that has left raises no signal`(path: Path) async throws {
    try await within("the write throws") {
      let reactor = Reactor()
      let (near, far) = try RawSocket.unixPair()
      let connection = try TCPConnection.adopt(fileDescriptor: near.release(), reactor: reactor)
      #expect(await connection.state == .open)
      // The connection does not know of this shutdown, so it finds out by sending, which fails with EPIPE.
      try await connection.withFileDescriptor { _ = shutdown($0, Int32(SHUT_WR)) }
      await #expect(throws: SocketError.self) { try await path.send(on: connection) }
      #expect(await reactor.pendingSignals == 0)
      await connection.abort()
      far.close()
    }
  }

  @Test func `A signal that is raised for the reactor's thread is seen`() async throws {
    let reactor = Reactor()
    reactor.submit { raise(SIGPIPE) }
    #expect(await reactor.pendingSignals == 1 << (UInt64(SIGPIPE) - 1))
  }
}

extension Reactor {
  /// The signals that are pending for the reactor's thread, one bit each: proc(5), SigPnd.
  fileprivate var pendingSignals: UInt64? {
    get async {
      await withCheckedContinuation { continuation in
        submit {
          let status = (try? String(contentsOfFile: "/proc/thread-self/status", encoding: .utf8)) ?? ""
          let line = status.split(separator: "\n").first { $0.hasPrefix("SigPnd:") }
          let digits = line?.dropFirst("SigPnd:".count).trimmingCharacters(in: .whitespaces)
          continuation.resume(returning: digits.flatMap { UInt64($0, radix: 16) })
        }
      }
    }
  }
}
