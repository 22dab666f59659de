import ActorSockets
import Foundation
import Glibc
import SocketSystem
import TestSupport

extension LimitBoundaries {
  static let ofProcess: [LimitBoundary] = [
    .most("signals that wait for a program to take them, in a sequence") { count in
      let arrivals = Notes<ProcessSignal>()
      let both: Set<ProcessSignal> = [.user1, .user2]
      var signals = try ProcessSignals(both).makeAsyncIterator()
      // Hears of each signal after the sequence.
      let witness = try SignalHub.shared.subscribe(to: both) { arrivals.add($0) }
      for number in 1...count {
        kill(getpid(), SIGUSR1)
        // Two signals that come at once are one.
        try await eventually("it has arrived") { arrivals.all.count == number }
      }
      var taken = await signals.next() == nil ? 0 : 1
      kill(getpid(), SIGUSR2)
      try await eventually("the last has arrived") { arrivals.all.count == count + 1 }
      while await signals.next() == .user1 { taken += 1 }
      withExtendedLifetime(witness) {}
      return taken == count
    },
    .most("bytes of a line on standard error about a handler that failed") { count in
      let output = try await printed {
        StandardError.write(line: String(repeating: "x", count: count))
      }
      return output == [UInt8](repeating: UInt8(ascii: "x"), count: count) + [UInt8(ascii: "\n")]
    },
    .most("such lines that wait for a slow reader; further ones are dropped") { count in
      let output = try await printed {
        try fillStandardError()
        StandardError.write(line: "x")
        try await eventually("the first line is being written") { try standardErrorIsBeingWritten() }
        for _ in 0..<count { StandardError.write(line: "x") }
      }
      return output.count { $0 == UInt8(ascii: "\n") } == count + 1
    },
  ]

  /// Returns the bytes that are printed on standard error, until no line waits. Nothing reads before the body has returned.
  private static func printed(_ body: () async throws -> Void) async throws -> [UInt8] {
    let before = dup(STDERR_FILENO)
    let ends = try pipeEnds()
    dup2(ends.writing, STDERR_FILENO)
    defer {
      dup2(before, STDERR_FILENO)
      for number in [before, ends.reading, ends.writing] { close(number) }
    }
    try await body()
    setBlocking(false, ends.reading)
    var output: [UInt8] = []
    try await eventually("nothing is left to print") {
      output += try readNow(ends.reading, atMost: 65_536)
      // The thread has a name when it has printed something.
      return !output.isEmpty && threads(named: "stderr") == 0
    }
    return output + (try readNow(ends.reading, atMost: 65_536))
  }

  private static func setBlocking(_ blocks: Bool, _ number: Int32) {
    let flags = fcntl(number, F_GETFL)
    _ = fcntl(number, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)
  }

  private static func fillStandardError() throws {
    setBlocking(false, STDERR_FILENO)
    defer { setBlocking(true, STDERR_FILENO) }
    for size in [4_096, 1] {
      let bytes = [UInt8](repeating: 0, count: size)
      // SAFETY: write reads the bytes of the array only.
      while unsafe bytes.withUnsafeBytes({ unsafe write(STDERR_FILENO, $0.baseAddress, $0.count) }) > 0 {}
    }
  }

  private static func standardErrorIsBeingWritten() throws -> Bool {
    #if arch(x86_64)
      let call = "1"
    #else
      let call = "64"
    #endif
    for id in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
      // A thread may end meanwhile.
      guard let name = try? String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8), name == "stderr\n",
        let text = try? String(contentsOfFile: "/proc/self/task/\(id)/syscall", encoding: .utf8)
      else { continue }
      if text.hasPrefix("\(call) 0x2 ") { return true }
    }
    return false
  }
}
