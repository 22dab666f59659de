import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct FileSourceTests {
  private static let ofKernel = [
    "/proc/self/status", "/proc/cpuinfo", "/proc/sys/kernel/ostype", "/sys/devices/system/cpu/online",
    "/sys/kernel/uevent_seqnum",
  ]

  @Test(arguments: ofKernel)
  func `A file whose size only reading tells is refused before anything is sent`(path: String) async throws {
    let error = await expectError(.invalidArgument) { _ = try FileSource(path: path) }
    #expect(
      error.description
        == "sendFile: only reading tells the size of this file, as of those in /proc and /sys; read it, and write its bytes"
    )
    await expectError(.invalidArgument) { _ = try FileSource(OwnedDescriptor.openForReading(path)) }
  }

  @Test func `The size of a file on a disk is known, whether it is empty, sparse or small`() throws {
    for count in [0, 1, 2, 4096, 100_000] {
      #expect(try TemporaryFile(pattern(count)).source.count == count)
      let sparse = try TemporaryFile()
      sparse.truncate(to: count)
      #expect(try sparse.source.count == count)
    }
    #expect(try FileSource(path: "/proc/self/exe").count > 0)
  }

  @Test func `A path that leads to nothing is not found`() async throws {
    let missing = await expectError(.pathNotFound) { _ = try FileSource(path: "/nonexistent") }
    #expect(missing.description == "open \"/nonexistent\": there is no file at this path (No such file or directory)")
    let below = await expectError(.pathNotFound) { _ = try FileSource(path: "/dev/null/file") }
    #expect(below.description.contains("a component of the path is not a directory"))
    await expectError(.invalidArgument) { _ = try FileSource(path: "/") }
    await expectError(.invalidArgument) { _ = try FileSource(path: "/dev/null") }
  }
}
