import TestSupport
import Testing

@testable import SocketSystem

@Suite(.tags(.pure)) struct FileBacklogTests {
  private static let header: [UInt8] = [1, 2, 3, 4]

  private func backlog(buffer: Int = 1000, file: Int = 1000) -> FileBacklog {
    FileBacklog(header: Self.header, FileBacklog.Limits(bufferSize: buffer, fileSize: file))
  }

  private func unit(_ count: Int, _ byte: UInt8 = 9) -> [UInt8] { [UInt8](repeating: byte, count: count) }

  /// The bytes to write now; `nil` if there is nothing to write.
  private func written(_ backlog: inout FileBacklog) -> [UInt8]? {
    if case .write(let batch)? = backlog.next() { batch.bytes } else { nil }
  }

  private func isIdle(_ backlog: inout FileBacklog) -> Bool { if case nil = backlog.next() { true } else { false } }

  private func closes(_ backlog: inout FileBacklog) -> Bool { if case .close? = backlog.next() { true } else { false } }

  @Test func `The header comes first, then units in their order, then the trailer`() {
    var backlog = backlog()
    backlog.append(unit(2, 7))
    #expect(written(&backlog) == Self.header + [7, 7])
    #expect(isIdle(&backlog))
    backlog.append(unit(1, 8))
    backlog.close { [UInt8($0.kept), UInt8($0.dropped)] }
    backlog.append(unit(1, 9))
    #expect(written(&backlog) == [8])
    #expect(written(&backlog) == [2, 0])
    #expect(closes(&backlog))
    #expect(backlog.report.kept == 2 && backlog.report.dropped == 0)
  }

  @Test func `Bytes that are being written take room, too`() {
    var backlog = backlog(buffer: 10)
    backlog.append(unit(6))
    #expect(written(&backlog)?.count == 10)
    backlog.append(unit(1))
    #expect(backlog.report.dropped == 1)
    // The batch is written now.
    #expect(isIdle(&backlog))
    backlog.append(unit(11))
    backlog.append(unit(10))
    #expect(backlog.report.kept == 2 && backlog.report.dropped == 2)
    #expect(written(&backlog)?.count == 10)
  }

  @Test func `After the first unit that is too large for the file, no unit is kept`() {
    var backlog = backlog(file: 10)
    backlog.append(unit(6))
    #expect(!backlog.report.hasReachedFileSize)
    backlog.append(unit(1))
    #expect(backlog.report.hasReachedFileSize)
    #expect(written(&backlog)?.count == 10)
    #expect(backlog.report.kept == 1 && backlog.report.dropped == 1)
    var other = self.backlog(file: 10)
    other.append(unit(7))
    other.append(unit(1))
    #expect(other.report.kept == 0 && other.report.dropped == 2)
  }

  @Test(arguments: [(0, 0, 0), (3, 0, 0), (4, 4, 0), (6, 4, 0), (7, 7, 1), (9, 7, 1), (10, 10, 2), (12, 10, 2)])
  func `After a failure, units that are not whole are lost`(count: Int, whole: Int, kept: Int) throws {
    var backlog = backlog()
    for _ in 0..<3 { backlog.append(unit(3)) }
    guard case .write(let batch)? = backlog.next() else {
      Issue.record("there is nothing to write")
      return
    }
    backlog.append(unit(5))
    #expect(batch.wholeBytes(in: count) == whole)
    backlog.failed(SystemError(call: "write", errno: Errno.noMemory), writing: batch, after: count)
    #expect(backlog.report.kept == kept && backlog.report.dropped == 4 - kept)
    backlog.append(unit(1))
    backlog.failed(SystemError(call: "write", errno: Errno.notSupported), writing: batch, after: 13)
    #expect(backlog.report.failure?.errno == Errno.noMemory)
    #expect(backlog.report.dropped == 5 - kept)
    backlog.close { _ in [1] }
    #expect(closes(&backlog))
  }

  @Test func `A trailer that cannot be written loses no unit`() {
    var backlog = backlog()
    backlog.append(unit(3))
    #expect(written(&backlog) != nil)
    backlog.close { _ in [1, 2] }
    guard case .write(let batch)? = backlog.next() else {
      Issue.record("there is no trailer")
      return
    }
    #expect(batch.wholeBytes(in: 1) == 0)
    backlog.failed(SystemError(call: "write", errno: Errno.noMemory), writing: batch, after: 1)
    #expect(backlog.report.kept == 1 && backlog.report.dropped == 0 && backlog.report.failure != nil)
    #expect(closes(&backlog))
  }
}
