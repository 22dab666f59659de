import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

/// Signals on the threads where code of the program runs. Each test is a process of its own, because signals may end it.
@Suite struct ThreadSignalTests {
  @Sendable private static func crash() {
    // SAFETY: the program is meant to crash here.
    unsafe UnsafeMutablePointer<UInt8>(bitPattern: 8)?.pointee = 1
  }

  @Test(arguments: HandlerPlace.allCases)
  func `The program's own handler of SIGSEGV runs when a handler of a connection crashes`(place: HandlerPlace) async {
    await #expect(processExitsWith: .exitCode(42)) { [place] in
      signal(SIGSEGV) { _ in _exit(42) }
      try await place.serve(Self.crash)
    }
  }

  @Test(arguments: HandlerPlace.allCases)
  func `A program that a handler starts is ended by a pipe without a reader`(place: HandlerPlace) async {
    await #expect(processExitsWith: .success) { [place] in
      let statuses = Notes<Int32>()
      try await place.serve {
        var child = pid_t()
        var status: Int32 = -1
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [
          strdup("/bin/sh"), strdup("-c"), strdup("kill -PIPE $$; exit 3"), nil,
        ]
        // SAFETY: the texts live until they are freed here, and the lists end with a nil.
        #expect(unsafe posix_spawn(&child, "/bin/sh", nil, nil, &arguments, nil) == 0)
        unsafe arguments.forEach { unsafe free($0) }
        _ = unsafe waitpid(child, &status, 0)
        statuses.add(status)
      }
      #expect(statuses.all == [SIGPIPE])
    }
  }

  @Test(arguments: HandlerPlace.allCases)
  func `A signal that the program takes over is delivered while a handler runs`(place: HandlerPlace) async {
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
