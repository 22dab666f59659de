import ActorSockets
import ActorSocketsTesting
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.conformance, .endsInTime, .tags(.manualMemory)) struct ReceiveFileTests {
  private func contents(_ path: String) throws -> [UInt8] { try Array(Data(contentsOf: URL(fileURLWithPath: path))) }

  @Test(arguments: Transport.allCases)
  func `A file gets exactly the bytes that were asked for, at their place`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let file = try TemporaryFile([9, 9, 9])
    let sink = try FileSink(path: file.path)
    #expect(try sink.count == 3)
    try await pair.client.write(pattern(700))
    let first = try await pair.server.receiveFile(sink, at: 1, count: 500)
    let none = try await pair.server.receiveFile(sink, at: 900, count: 0)
    #expect(first == 500 && none == 0)
    #expect(try contents(file.path) == [9] + pattern(500))
    #expect(try await pair.server.read(exactly: 200) == pattern(200, from: 500))
    try await sink.truncate(to: 2)
    try await sink.synchronize()
    #expect(try contents(file.path) == [9] + pattern(1))
  }

  @Test(arguments: Transport.allCases)
  func `A long file is received until the peer has finished, and tells how far it is`(transport: Transport) async throws
  {
    let pair = try await transport.pair()
    let file = try TemporaryFile()
    let sending = Task {
      try await pair.client.write(pattern(1_500_000))
      try await pair.client.finishWriting()
    }
    var seen: [Int] = []
    let count = try await pair.server.receiveFile(FileSink(path: file.path)) { seen.append($0) }
    try await sending.value
    #expect(count == 1_500_000 && seen.last == count && seen == seen.sorted() && seen.count > 4)
    #expect(try contents(file.path) == pattern(1_500_000))
    let more = try await pair.server.receiveFile(FileSink(path: file.path))
    #expect(more == 0)
  }

  @Test(arguments: Transport.allCases)
  func `An end that comes too early is an error, which counts what is in the file`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let file = try TemporaryFile()
    try await pair.client.write(pattern(1_000))
    try await pair.client.finishWriting()
    let error = await expectError(.endOfStream) {
      try await pair.server.receiveFile(FileSink(path: file.path), count: 1_001)
    }
    #expect(error.bytesTransferred == 1_000)
    #expect(try contents(file.path) == pattern(1_000))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A timeout and a cancellation keep what has arrived in the file`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let file = try TemporaryFile()
    let sink = try FileSink(path: file.path)
    try await pair.client.write(pattern(1_000))
    let timed = Task { try await pair.server.receiveFile(sink, count: 2_000, timeout: .seconds(5)) }
    try await eventually("the bytes are in the file") { try sink.count == 1_000 }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(5))
    let error = await expectError(.timedOut) { _ = try await timed.value }
    #expect(error.bytesTransferred == 1_000)
    let cancelled = Task { try await pair.server.receiveFile(sink, at: 1_000) }
    try await pair.client.write(pattern(500, from: 1_000))
    try await eventually("more bytes are in the file") { try sink.count == 1_500 }
    cancelled.cancel()
    await expectCancellation { _ = try await cancelled.value }
    #expect(try contents(file.path) == pattern(1_500))
    try await pair.client.write([7])
    #expect(try await pair.server.read() == [7])
  }

  @Test(arguments: [(-1, nil), (0, -1), (.max, 1), (1, .max)] as [(Int, Int?)])
  func `Bytes for a place that no file has are refused, and stay`(offset: Int, count: Int?) async throws {
    let pair = try await Transport.inMemory.pair()
    let file = try TemporaryFile()
    try await pair.client.write([1])
    await expectError(.invalidArgument) {
      try await pair.server.receiveFile(FileSink(path: file.path), at: offset, count: count)
    }
    #expect(try await pair.server.read() == [1])
  }

  @Test func `A file that cannot be written ends the call with its error`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair()
    let file = try TemporaryFile()
    // SAFETY: the text is valid for the call.
    let sink = try FileSink(OwnedDescriptor(owning: unsafe open(file.path, O_RDONLY)))
    try await pair.client.write([1, 2, 3])
    let error = await #expect(throws: SocketError.self) { try await pair.server.receiveFile(sink, count: 3) }
    #expect(error?.bytesTransferred == 0 && error?.operation == "receiveFile" && error?.errno == EBADF)
    await #expect(throws: SocketError.self) { try await sink.truncate(to: 0) }
  }

  @Test func `Only a regular file is a sink`() async throws {
    for path in ["/dev/null", "a\0b"] { await expectError(.invalidArgument) { _ = try FileSink(path: path) } }
    await expectError(.pathNotFound) { _ = try FileSink(path: "/nonexistent/file") }
    #expect(throws: SocketError.self) { _ = try FileSink(path: "/") }
    let path = try TemporaryFile().path + ".new"
    defer { unsafe unlink(path) }
    _ = try FileSink(path: path, permissions: 0o600)
    var status = stat()
    // SAFETY: text and memory are valid for the call.
    unsafe stat(path, &status)
    #expect(status.st_mode & 0o777 == 0o600)
  }
}
