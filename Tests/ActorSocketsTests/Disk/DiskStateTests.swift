import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Names and files of a simulated disk, and what a power failure may do to them.
@Suite(.tags(.pure)) struct DiskStateTests {
  private func path(_ text: String) throws -> DiskPath { try DiskPath(text, operation: "test", mayBeEmpty: true) }

  /// Creates a file whose contents are on the disk.
  private func make(_ name: String, _ contents: [UInt8] = [], in disk: inout DiskState) throws -> Int {
    let (node, _) = try disk.open(path(name), .exclusive)
    _ = disk.write(contents, at: 0, to: node)
    _ = disk.synchronize(node, upTo: disk.changes(of: node))
    return node
  }

  private func synchronize(_ directory: String, in disk: inout DiskState) throws {
    let node = try disk.directory(at: path(directory).names[...], "open")
    _ = disk.synchronizeDirectory(node, before: disk.names.next)
  }

  private func losePower(_ disk: inout DiskState, seed: UInt64) {
    var random = SplitMix(seed: seed)
    var (data, names) = (PowerLoss(&random), PowerLoss(&random))
    _ = disk.losePower(data: &data, names: &names)
  }

  /// The contents of each file.
  private func files(of disk: DiskState) -> [String: [UInt8]] {
    var files: [String: [UInt8]] = [:]
    for (node, path) in disk.paths {
      if let file = disk.files[node] { files[path] = file.visible.bytes(in: 0..<file.visible.count) }
    }
    return files
  }

  // MARK: Random histories

  /// Where each file may be after a power failure. Its contents, which were synced, are its number.
  private struct Model {
    /// `nil` for a file that may be gone.
    var possible: [UInt8: Set<String?>] = [:]
    var current: [String: UInt8] = [:]
    /// The directories that the last change of a file's name concerns.
    var touched: [UInt8: Set<String>] = [:]

    static func directory(of path: String) -> String { path.contains("/") ? String(path.prefix(1)) : "" }

    mutating func moved(_ file: UInt8, from: String?, to: String?) {
      if let from { current[from] = nil }
      if let to { current[to] = file }
      possible[file, default: [nil]].insert(to)
      touched[file] = Set([from, to].compactMap { $0 }.map(Self.directory))
    }

    mutating func synchronized(_ directory: String) {
      for (file, directories) in touched where directories.contains(directory) {
        possible[file] = [current.first { $0.value == file }?.key]
        touched[file] = nil
      }
    }
  }

  private func change(_ disk: inout DiskState, _ model: inout Model, _ next: inout UInt8, _ random: inout SeededRandom)
    throws
  {
    let names = ["x", "y", "a/x", "a/y", "b/x", "b/y"]
    let (one, other) = (names.randomElement(using: &random) ?? "", names.randomElement(using: &random) ?? "")
    switch Int.random(in: 0..<8, using: &random) {
    case 0..<3:
      if model.current[one] != nil { return }
      _ = try make(one, [next], in: &disk)
      model.moved(next, from: nil, to: one)
      next += 1
    case 3..<5:
      guard let file = model.current[one], one != other else { return }
      try disk.rename(path(one), to: path(other))
      if let replaced = model.current[other] {
        model.moved(replaced, from: other, to: nil)
        // It goes with the rename, which concerns two directories.
        model.touched[replaced] = [Model.directory(of: one), Model.directory(of: other)]
      }
      model.moved(file, from: one, to: other)
    case 5:
      guard let file = model.current[one] else { return }
      try disk.remove(path(one))
      model.moved(file, from: one, to: nil)
    default:
      let directory = ["", "a", "b"].randomElement(using: &random) ?? ""
      try synchronize(directory, in: &disk)
      model.synchronized(directory)
    }
  }

  @Test(arguments: 0..<40 as Range<UInt64>)
  func `Each file is at one path that it had since the last sync of its directory, and complete`(seed: UInt64) throws {
    for round in 0..<seeds(10, atMost: 2_000) {
      var random = SeededRandom(seed: seed &* 1_000_003 &+ round)
      var (disk, model, next) = (DiskState(), Model(), 1 as UInt8)
      for name in ["a", "b"] { try disk.createDirectory(path(name)) }
      try synchronize("", in: &disk)
      for crash in 0..<3 as Range<UInt64> {
        for _ in 0..<Int.random(in: 0...16, using: &random) {
          try change(&disk, &model, &next, &random)
          #expect(files(of: disk) == model.current.mapValues { [$0] })
        }
        losePower(&disk, seed: random.next() &+ crash)
        var found: [UInt8: String] = [:]
        for (path, contents) in files(of: disk) {
          let file = try #require(contents.first, "seed \(seed): \(path) is empty")
          #expect(found.updateValue(path, forKey: file) == nil, "seed \(seed): \(file) has two names")
        }
        for (file, paths) in model.possible {
          #expect(paths.contains(found[file]), "seed \(seed), round \(round): \(file) is not in \(paths)")
        }
        #expect(Set(found.keys).isSubset(of: model.possible.keys))
        model = Model()
        for (file, path) in found {
          model.possible[file] = [path]
          model.current[path] = file
        }
      }
    }
  }

  // MARK: Losses that go together

  /// The sets of paths that are there after a power failure, with many seeds.
  private func outcomes(_ make: (inout DiskState) throws -> Void) throws -> Set<[String]> {
    var outcomes: Set<[String]> = []
    for seed in 0..<200 as Range<UInt64> {
      var disk = DiskState()
      try make(&disk)
      losePower(&disk, seed: seed)
      outcomes.insert(disk.paths.values.sorted())
    }
    return outcomes
  }

  @Test func `A new file is there or not, and with a sync of its directory always`() throws {
    #expect(try outcomes { _ = try make("log", [1], in: &$0) } == [[], ["log"]])
    let synced = try outcomes {
      _ = try make("log", [1], in: &$0)
      try synchronize("", in: &$0)
    }
    #expect(synced == [["log"]])
  }

  @Test func `The files of a directory are lost with its own name`() throws {
    let found = try outcomes {
      try $0.createDirectory(path("a"))
      _ = try make("a/x", [1], in: &$0)
      try synchronize("a", in: &$0)
    }
    #expect(found == [[], ["a", "a/x"]])
  }

  @Test func `A directory is not removed before what was moved out of it`() throws {
    let found = try outcomes {
      try $0.createDirectory(path("a"))
      try synchronize("", in: &$0)
      _ = try make("a/x", [1], in: &$0)
      try synchronize("a", in: &$0)
      try $0.rename(path("a/x"), to: path("x"))
      try $0.remove(path("a"))
    }
    #expect(found == [["a", "a/x"], ["a", "x"], ["x"]])
  }

  @Test func `Directories that are moved into each other are never lost`() throws {
    let found = try outcomes {
      for name in ["a", "b"] { try $0.createDirectory(path(name)) }
      try synchronize("", in: &$0)
      try $0.rename(path("a"), to: path("b/a"))
      try $0.rename(path("b/a"), to: path("c"))
      try $0.rename(path("b"), to: path("c/b"))
    }
    #expect(found == [["a", "b"], ["b", "b/a"], ["b", "c"], ["c", "c/b"]])
  }

  @Test func `A rename may survive without the contents of the new file`() throws {
    var contents: Set<[UInt8]> = []
    for seed in 0..<400 as Range<UInt64> {
      var disk = DiskState()
      _ = try make("state", [1], in: &disk)
      try synchronize("", in: &disk)
      let (new, _) = try disk.open(path("new"), .exclusive)
      _ = disk.write([2], at: 0, to: new)
      try disk.rename(path("new"), to: path("state"))
      losePower(&disk, seed: seed)
      contents.insert(try #require(files(of: disk)["state"]))
    }
    #expect(contents == [[1], [2], [], [0]])
  }

  // MARK: Room

  @Test func `A full disk takes what it has room for`() throws {
    var disk = DiskState()
    disk.capacity = 4 * SparseBytes.blockSize + 100
    let (node, _) = try disk.open(path("log"), .ifMissing)
    #expect(disk.write([UInt8](repeating: 1, count: 4_000), at: 0, to: node) == (4_000, nil))
    let full = SystemError(call: "pwrite", errno: Errno.noSpace)
    let (count, error) = disk.write([UInt8](repeating: 2, count: 10_000), at: 4_000, to: node)
    #expect(count == 3 * SparseBytes.blockSize - 4_000 && error == full)
    // Blocks that are there can still be changed.
    #expect(disk.write([3], at: 0, to: node) == (1, nil))
    #expect(disk.write([3], at: 3 * SparseBytes.blockSize, to: node) == (0, full))
    #expect(throws: SystemError(call: "open", errno: Errno.noSpace)) { try disk.open(path("other"), .ifMissing) }
    #expect(throws: SystemError(call: "mkdir", errno: Errno.noSpace)) { try disk.createDirectory(path("other")) }
    try disk.truncate(node, to: SparseBytes.blockSize)
    _ = try disk.open(path("other"), .ifMissing)
  }

  @Test func `Removed files use no room, unless they are open`() throws {
    var disk = DiskState()
    disk.capacity = 8 * SparseBytes.blockSize
    let block = [UInt8](repeating: 1, count: 3 * SparseBytes.blockSize)
    for round in 0..<100 {
      let (node, _) = try disk.open(path("log\(round)"), .exclusive)
      #expect(disk.write(block, at: 0, to: node) == (block.count, nil))
      try disk.remove(path("log\(round)"))
    }
    // The memory of those that a power failure could bring back has a limit, too.
    #expect(disk.files.count <= 4)
    let open = try disk.open(path("open"), .exclusive)
    try withExtendedLifetime(open.mark) {
      _ = disk.write(block, at: 0, to: open.node)
      try disk.remove(path("open"))
      try synchronize("", in: &disk)
      let (other, _) = try disk.open(path("other"), .exclusive)
      let full = SystemError(call: "pwrite", errno: Errno.noSpace)
      #expect(disk.write([1] + block, at: 0, to: other) == (block.count, full))
      #expect(disk.count(of: open.node) == block.count)
    }
  }

  @Test func `Changes of names that wait for a sync have a limit`() throws {
    var disk = DiskState()
    _ = try make("a", in: &disk)
    for _ in 0..<(2 * NameChanges.mostPending) {
      try disk.rename(path("a"), to: path("b"))
      try disk.rename(path("b"), to: path("a"))
      #expect(disk.names.pending.count <= NameChanges.mostPending)
    }
  }
}
