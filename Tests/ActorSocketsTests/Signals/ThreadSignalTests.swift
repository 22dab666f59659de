import ActorSockets
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

/// Signals on the threads where code of the program runs. Each test is a process of its own, because signals may end it.
@Suite struct ThreadSignalTests {
  /// Where a handler runs.
  enum Place: String, CaseIterable, Codable {
    case pool, reactor, isolated
    /// A thread of Swift's pool that the pool starts on the reactor's thread: no other code uses this priority.
    case threadOfReactor

    /// Serves one connection, and calls `body` in its handler, or in a task that the handler starts.
    func serve(_ body: @escaping @Sendable () -> Void) async throws {
      try await within("it is served") {
        let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: Reactor())
        let serving = Task {
          switch self {
          case .pool: try await listener.serve { _ in body() }
          case .reactor: try await listener.serve(on: .reactor) { _ in body() }
          case .isolated: try await listener.serve { (_: isolated TCPConnection) in body() }
          case .threadOfReactor:
            try await listener.serve(on: .reactor) { _ in await Task.detached(priority: .background) { body() }.value }
          }
        }
        _ = try await RawSocket.connected(to: listener.localAddresses[0]).receiveToEnd()
        serving.cancel()
        _ = try await serving.value
      }
    }
  }

  /// Writes to an address that is not mapped.
  @Sendable private static func crash() {
    // SAFETY: the program is meant to crash here.
    unsafe UnsafeMutablePointer<UInt8>(bitPattern: 8)?.pointee = 1
  }

  @Test(arguments: Place.allCases)
  func `The program's own handler of SIGSEGV runs when a handler of a connection crashes`(place: Place) async {
    await #expect(processExitsWith: .exitCode(42)) { [place] in
      signal(SIGSEGV) { _ in _exit(42) }
      try await place.serve(Self.crash)
    }
  }

  @Test(arguments: Place.allCases)
  func `A trap in a handler prints its backtrace`(place: Place) async throws {
    // The process that is started inherits it. To look the names up would take long.
    let settings = "enable=yes,color=no,symbolicate=off,threads=crashed,images=none,registers=none,top=4,timeout=0s"
    // SAFETY: the texts are valid for the calls.
    unsafe setenv("SWIFT_BACKTRACE", settings, 1)
    defer { unsafe unsetenv("SWIFT_BACKTRACE") }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [place] in
      try await place.serve { fatalError("a trap") }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("a trap") && text.contains(/crashed:\n\n *0 +0x[0-9a-f]+\n/), "\(text)")
  }

  @Test(arguments: Place.allCases)
  func `A program that a handler starts is ended by a pipe without a reader`(place: Place) async {
    await #expect(processExitsWith: .success) { [place] in
      let statuses = Notes<Int32>()
      try await place.serve {
        var child = pid_t()
        var status: Int32 = -1
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [
          strdup("/bin/sh"), strdup("-c"), strdup("kill -PIPE $$; exit 3"), nil,
        ]
        // SAFETY: the texts live as long as the process, and the lists end with a nil.
        #expect(unsafe posix_spawn(&child, "/bin/sh", nil, nil, &arguments, nil) == 0)
        _ = unsafe waitpid(child, &status, 0)
        statuses.add(status)
      }
      #expect(statuses.all == [SIGPIPE])
    }
  }

  @Test(arguments: Place.allCases)
  func `A signal that the program takes over is delivered while a handler runs`(place: Place) async {
    await #expect(processExitsWith: .success) { [place] in
      let signals = try ProcessSignals([.terminate])
      try await place.serve { kill(getpid(), SIGTERM) }
      try await within("it is delivered") {
        for await signal in signals {
          #expect(signal == .terminate)
          break
        }
      }
    }
  }
}
