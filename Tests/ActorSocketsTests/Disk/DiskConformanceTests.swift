import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// What every disk does, on Linux and in a simulation.
@Suite struct DiskConformanceTests {
  @Test(arguments: DiskKind.allCases) func `A file has what was written to it`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      let file = try await disk.open("log")
      var count = try await file.count
      #expect(count == 0)
      try await file.write([1, 2, 3], at: 0)
      try await file.write([9], at: 1)
      try await file.append([4, 5])
      try await file.append([])
      count = try await file.count
      #expect(count == 5)
      #expect(try await file.read(at: 0, count: 100) == [1, 9, 3, 4, 5])
      #expect(try await file.read(at: 3, count: 1) == [4])
      #expect(try await file.read(at: 5, count: 1) == [])
      #expect(try await file.read(at: 1_000, count: 1) == [])
      #expect(try await file.read(at: 1, count: .max - 1) == [9, 3, 4, 5])
      try await file.synchronize()
      // Another handle sees the same.
      #expect(try await disk.open("log", creation: .never).read(at: 0, count: 2) == [1, 9])
    }
  }

  @Test(arguments: DiskKind.allCases) func `Bytes that were not written are zeros`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      let file = try await disk.open("log")
      try await file.write([7], at: 5_000)
      #expect(try await file.read(at: 4_999, count: 5) == [0, 7])
      try await file.write([], at: 9_000)
      try await file.truncate(to: 4_000)
      try await file.truncate(to: 5_002)
      #expect(try await file.read(at: 4_999, count: 5) == [0, 0, 0])
      try await file.truncate(to: 0)
      let count = try await file.count
      #expect(count == 0)
    }
  }

  @Test(arguments: DiskKind.allCases) func `A file is created only if the caller says so`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      await expectError(.pathNotFound, saying: "log") { _ = try await disk.open("log", creation: .never) }
      #expect(try await disk.list("") == [])
      _ = try await disk.open("log", creation: .exclusive)
      await expectError(.pathExists) { _ = try await disk.open("log", creation: .exclusive) }
      _ = try await disk.open("log", creation: .ifMissing)
      _ = try await disk.open("log", creation: .never)
      await expectError(.pathNotFound) { _ = try await disk.open("missing/log") }
      await expectError(.pathNotFound) { _ = try await disk.open("log/log") }
    }
  }

  @Test(arguments: DiskKind.allCases) func `A rename replaces a file, and open files stay`(kind: DiskKind) async throws
  {
    try await kind.withDisk { disk in
      let (old, new) = try await (disk.open("old"), disk.open("new"))
      try await old.append([1])
      try await new.append([2])
      try await disk.rename("new", to: "old")
      #expect(try await disk.list("") == ["old"])
      #expect(try await disk.contents(of: "old") == [2])
      #expect(try await old.read(at: 0, count: 2) == [1])
      try await new.append([3])
      #expect(try await disk.contents(of: "old") == [2, 3])
      await expectError(.pathNotFound) { try await disk.rename("new", to: "other") }
      await expectError(.pathNotFound) { try await disk.rename("old", to: "missing/other") }
      try await disk.rename("old", to: "old")
      try await disk.remove("old")
      #expect(try await new.read(at: 0, count: 2) == [2, 3])
      await expectError(.pathNotFound) { try await disk.remove("old") }
    }
  }

  @Test(arguments: DiskKind.allCases) func `Directories contain files and directories`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      try await disk.createDirectory("a")
      try await disk.createDirectory("a/b")
      await expectError(.pathExists) { try await disk.createDirectory("a") }
      await expectError(.pathNotFound) { try await disk.createDirectory("c/b") }
      for name in ["z", "é", "Z", "10", "9"] { _ = try await disk.open("a/\(name)") }
      #expect(try await disk.list("a") == ["10", "9", "Z", "b", "z", "é"])
      #expect(try await disk.list("a/b") == [])
      await expectError(.pathNotFound) { _ = try await disk.list("a/z") }
      await expectError(.pathNotFound) { _ = try await disk.list("c") }
      await expectError(.pathExists, saying: "has something in it") { try await disk.remove("a") }
      await expectError(.invalidArgument) { _ = try await disk.open("a") }
      await expectError(.invalidArgument) { try await disk.rename("a", to: "a/b/c") }
      await expectError(.invalidArgument) { try await disk.rename("a/z", to: "a/b") }
      await expectError(.pathNotFound) { try await disk.rename("a/b", to: "a/z") }
      try await disk.createDirectory("d")
      await expectError(.pathExists) { try await disk.rename("d", to: "a") }
      try await disk.rename("a", to: "d")
      #expect(try await disk.list("") == ["d"])
      try await disk.remove("d/b")
      for directory in ["", "d"] { try await disk.synchronizeDirectory(directory) }
      await expectError(.pathNotFound) { try await disk.synchronizeDirectory("a") }
    }
  }

  @Test(arguments: DiskKind.allCases) func `Names that differ only in their bytes are different`(kind: DiskKind)
    async throws
  {
    try await kind.withDisk { disk in
      // An e with an accent, as one character and as two.
      for name in ["\u{e9}", "e\u{301}"] { try await disk.open(name).append(Array(name.utf8)) }
      #expect(try await disk.list("").count == 2)
      #expect(try await disk.contents(of: "\u{e9}") == Array("\u{e9}".utf8))
    }
  }

  @Test(arguments: DiskKind.allCases, ["/etc", "..", "a/../b", "./a", "a//b", "a/", "", "a\0b"])
  func `A path that leads elsewhere is refused`(kind: DiskKind, path: String) async throws {
    try await kind.withDisk { disk in
      await expectError(.invalidArgument) { _ = try await disk.open(path) }
      await expectError(.invalidArgument) { try await disk.remove(path) }
      await expectError(.invalidArgument) { try await disk.createDirectory(path) }
      await expectError(.invalidArgument) { try await disk.rename("a", to: path) }
      if path.utf8.isEmpty { return }
      await expectError(.invalidArgument) { _ = try await disk.list(path) }
      await expectError(.invalidArgument) { try await disk.synchronizeDirectory(path) }
    }
  }

  @Test(arguments: DiskKind.allCases) func `Parts that do not exist are refused`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      await expectError(.invalidArgument) { _ = try await disk.open(String(repeating: "a", count: 256)) }
      let file = try await disk.open(String(repeating: "a", count: 255))
      await expectError(.invalidArgument) { _ = try await file.read(at: -1, count: 1) }
      await expectError(.invalidArgument) { _ = try await file.read(at: 0, count: -1) }
      await expectError(.invalidArgument) { _ = try await file.read(at: 1, count: .max) }
      await expectError(.invalidArgument) { try await file.write([1], at: -1) }
      await expectError(.invalidArgument) { try await file.write([1], at: .max) }
      await expectError(.invalidArgument) { try await file.truncate(to: -1) }
      await expectError(.limitExceeded) { try await file.write([1], at: .max - 1) }
    }
  }

  @Test(arguments: DiskKind.allCases) func `A file is replaced as a whole`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      try await disk.createDirectory("a")
      try await disk.replace("a/state", with: [1, 2, 3])
      // What a crash has left.
      try await disk.open("a/state.new").write([9, 9, 9, 9], at: 0)
      try await disk.replace("a/state", with: [4])
      #expect(try await disk.contents(of: "a/state") == [4])
      #expect(try await disk.list("a") == ["state"])
      await expectError(.limitExceeded) { _ = try await disk.read("a/state", maximumLength: 0) }
      #expect(try await disk.read("a/state", maximumLength: 1) == [4])
      await expectError(.pathNotFound) { try await disk.replace("b/state", with: [1]) }
      try await disk.createDirectory("a/b")
      await expectError(.invalidArgument) { try await disk.replace("a/b", with: [1]) }
      // A directory in the way of the new file stays.
      try await disk.createDirectory("a/c.new")
      await expectError(.invalidArgument) { try await disk.replace("a/c", with: [1]) }
      #expect(try await disk.list("a") == ["b", "c.new", "state"])
    }
  }

  @Test(arguments: DiskKind.allCases) func `Bytes of appends that overlap are not mixed`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      let files = try await [disk.open("log"), disk.open("log")]
      let count = 3_000
      try await withThrowingTaskGroup { group in
        for number in 1...20 as ClosedRange<UInt8> {
          group.addTask { try await files[Int(number) % 2].append([UInt8](repeating: number, count: count)) }
        }
        try await group.waitForAll()
      }
      let bytes = try await disk.contents(of: "log")
      let runs = stride(from: 0, to: bytes.count, by: count).map { Set(bytes[$0..<($0 + count)]) }
      #expect(runs.count == 20 && runs.allSatisfy { $0.count == 1 } && Set(runs).count == 20)
    }
  }

  @Test(arguments: DiskKind.allCases) func `Cancellation has no effect`(kind: DiskKind) async throws {
    try await kind.withDisk { disk in
      let task = Task {
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        try await disk.replace("log", with: [1])
        return try await disk.contents(of: "log")
      }
      let contents = try await task.value
      #expect(contents == [1])
    }
  }

  @Test func `A directory that does not exist is no disk`() async throws {
    let folder = try Folder()
    try Data().write(to: folder.file("file"))
    for name in ["missing", "file", "missing/below"] {
      expectErrorNow(.pathNotFound) { _ = try LinuxDisk(directory: folder.file(name).path) }
    }
  }

  @Test func `A socket cannot be opened`() async throws {
    let folder = try Folder()
    let listener = try TCPListener.bind(to: .unix(path: folder.file("socket").path))
    let disk = try LinuxDisk(directory: folder.url.path)
    await expectError(.invalidArgument, saying: "socket") { _ = try await disk.open("socket") }
    await listener.close()
  }

  @Test func `A device cannot be opened`() async throws {
    let folder = try Folder()
    try FileManager.default.createSymbolicLink(atPath: folder.file("null").path, withDestinationPath: "/dev/null")
    let disk = try LinuxDisk(directory: folder.url.path)
    await expectError(.invalidArgument, saying: "regular file") { _ = try await disk.open("null") }
  }
}
