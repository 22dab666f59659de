import ActorSockets
import EpollReactor
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

/// No send on a stream raises SIGPIPE: all have MSG_NOSIGNAL. Datagram sockets raise no signal in any case: send(2). Of sendfile(2) and
/// write(2), which have no such flag, the signal is taken back.
///
/// Each test is a process of its own, which such a signal would end.
@Suite struct BrokenPipeTests {
  enum Path: String, CaseIterable, Codable {
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
    await #expect(processExitsWith: .success) { [path] in
      signal(SIGPIPE, SIG_DFL)
      try await within("the write throws") {
        let (connection, far) = try StreamSocket.unix.connection()
        #expect(await connection.state == .open)
        // The connection does not know of this shutdown, so it finds out by sending, which fails with EPIPE.
        try await connection.withFileDescriptor { _ = shutdown($0, Int32(SHUT_WR)) }
        await #expect(throws: SocketError.self) { try await path.send(on: connection) }
        await connection.abort()
        far.close()
      }
    }
  }

  @Test func `A signal that is raised on the reactor's thread has its effect`() async {
    await #expect(processExitsWith: .signal(SIGPIPE)) {
      signal(SIGPIPE, SIG_DFL)
      Reactor.shared.submit { raise(SIGPIPE) }
      try await eventually("the process has ended") { false }
    }
  }

  @Test func `A line on a standard error whose reader has left raises no signal`() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      let pipe = Pipe()
      let end = pipe.fileHandleForWriting.fileDescriptor
      // The pipe is full, so that the thread still waits for room when the reader leaves.
      let page = [UInt8](repeating: 0, count: 4096)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
      // SAFETY: write(2) reads the bytes during the call only.
      while unsafe page.withUnsafeBytes({ unsafe write(end, $0.baseAddress, $0.count) }) > 0 {}
      _ = fcntl(end, F_SETFL, 0)
      // Swift Testing writes to standard error when the body ends.
      let before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
      defer {
        dup2(before, STDERR_FILENO)
        close(before)
      }
      dup2(end, STDERR_FILENO)
      StandardError.write(line: "a line")
      try await eventually("the thread has the line") { threads(named: "stderr") == 1 }
      try pipe.fileHandleForReading.close()
      try await eventually("the line is given up") { threads(named: "stderr") == 0 }
    }
  }

  @Test func `A capture into a pipe whose reader has left raises no signal`() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      try await within("the capture fails") {
        let pipe = Pipe()
        let path = "/dev/fd/\(pipe.fileHandleForWriting.fileDescriptor)"
        let capture = try PacketCapture(path: path, replacing: true)
        try pipe.fileHandleForReading.close()
        // The beginning of the file may have been written before, but not its end.
        await #expect(throws: SocketError.self) { try await capture.finish() }
        #expect(capture.error?.errno == EPIPE)
      }
    }
  }

  /// write(2) to a pipe returns the number of bytes that it has moved, and has raised the signal.
  @Test func `A reader that leaves in the middle of a write to a file raises no signal`() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      try await within("the file is closed") {
        let pipe = Pipe()
        // More than a pipe has room for, so that no write moves all of it without a reader.
        let file = try BackgroundFile(
          path: "/dev/fd/\(pipe.fileHandleForWriting.fileDescriptor)", replacing: true, bufferSize: 0, fileSize: 0,
          header: pattern(4_000_000), trailer: { _ in [] })
        try await eventually("some bytes are in the pipe") {
          BorrowedDescriptor(pipe.fileHandleForReading.fileDescriptor).receivableBytes() > 0
        }
        try pipe.fileHandleForReading.close()
        await withCheckedContinuation { continuation in file.close { continuation.resume() } }
        #expect(file.report.failure?.errno == EPIPE)
      }
    }
  }

  /// sendfile(2) sends pieces of 64 KiB, and returns their number if a later one raises the signal. When that happens is up to the kernel,
  /// so there are many rounds.
  @Test(arguments: [false, true])
  func `A peer that leaves in the middle of a file raises no signal`(isUnix: Bool) async {
    await #expect(processExitsWith: .success) { [isUnix] in
      signal(SIGPIPE, SIG_DFL)
      let size = 262_144
      let source = try TemporaryFile(pattern(size))
      let file = try OwnedDescriptor.openForReading(source.path)
      let listener = try RawSocket.listening()
      var random = SeededRandom(seed: 1)
      for _ in 0..<3_000 {
        let near: RawSocket
        let far: RawSocket
        if isUnix {
          (near, far) = try RawSocket.unixPair()
        } else {
          far = try RawSocket.connected(to: listener.address)
          near = try listener.acceptNow()
          // A reset after the end is EPIPE, not ECONNRESET.
          far.finishWriting()
          #expect(try near.receiveNow(atMost: 1) == [])
        }
        try BorrowedDescriptor(near.number).set(.sendBuffer, to: 4 << 20)
        _ = fcntl(near.number, F_SETFL, O_NONBLOCK)
        let turns = Int.random(in: 0..<200, using: &random)
        let leaving = Task.detached {
          for _ in 0..<turns { _ = getpid() }
          far.reset()
        }
        _ = BorrowedDescriptor(near.number).send(file: file, from: 0, count: size)
        await leaving.value
        near.close()
      }
    }
  }
}
