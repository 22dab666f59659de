import ActorSockets
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Where a capture may write: only its owner reads it, and no file of anybody else is changed.
@Suite struct CapturePathTests {
  private let folder: SocketFolder

  init() throws { folder = try SocketFolder() }

  private func text(_ name: String) throws -> String { try String(contentsOfFile: folder(name), encoding: .utf8) }

  private func write(_ text: String, _ name: String) throws {
    try text.write(toFile: folder(name), atomically: false, encoding: .utf8)
  }

  @Test func `A capture over the file of another user cannot be read by that user`() async throws {
    try write("old", "capture")
    // SAFETY (here and below): the texts are valid for the calls.
    #expect(unsafe chmod(folder("capture"), 0o644) == 0)
    #expect(unsafe link(folder("capture"), folder("other-name")) == 0)
    // Only root can give a file away.
    if geteuid() == 0 { #expect(unsafe chown(folder("capture"), 65_534, 65_534) == 0) }
    let reader = try #require(FileHandle(forReadingAtPath: folder("capture")))
    try await PacketCapture(path: folder("capture"), replacing: true).finish()
    #expect(try reader.readToEnd() == Data("old".utf8))
    #expect(try text("other-name") == "old")
    #expect(try CaptureFile(path: folder("capture")).packets.isEmpty)
    var status = stat()
    #expect(unsafe lstat(folder("capture"), &status) == 0)
    #expect(status.st_uid == geteuid() && status.st_mode & 0o7777 == 0o600)
  }

  @Test(arguments: [true, false], [true, false])
  func `A symbolic link to a file is not followed`(replaces: Bool, isThere: Bool) async throws {
    if isThere { try write("kept", "file") }
    #expect(unsafe symlink(folder("file"), folder("capture")) == 0)
    let code: SocketError.Code = !replaces ? .pathExists : isThere ? .system : .pathNotFound
    let error = await expectError(code) { _ = try PacketCapture(path: folder("capture"), replacing: replaces) }
    if replaces, isThere {
      #expect(
        error.description.hasPrefix(
          "capture to \"\(folder("capture"))\": a symbolic link to a file is not followed; give the file's own path"))
    }
    #expect(folder.names.contains("file") == isThere)
    if isThere { #expect(try text("file") == "kept") }
  }

  @Test func `A symbolic link to a device or a pipe is followed`() async throws {
    #expect(unsafe symlink("/dev/null", folder("capture")) == 0)
    try await PacketCapture(path: folder("capture"), replacing: true).finish()
    let pipe = Pipe()
    try await PacketCapture(path: "/dev/fd/\(pipe.fileHandleForWriting.fileDescriptor)", replacing: true).finish()
    try pipe.fileHandleForWriting.close()
    #expect(try pipe.fileHandleForReading.readToEnd()?.isEmpty == false)
  }

  @Test func `A directory that is missing, or is a file, is named`() async {
    await expectError(.pathNotFound) { _ = try PacketCapture(path: "/nonexistent/file") }
    let error = await expectError(.pathNotFound) { _ = try PacketCapture(path: "/dev/null/file", replacing: true) }
    #expect(error.description.contains("a component of the path is not a directory"))
    await expectError(.invalidArgument) { _ = try PacketCapture(path: folder.path, replacing: true) }
  }
}
