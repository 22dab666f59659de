// The disk of a simulated host: a pure machine. It answers as Linux does, with the same errors, and decides what a crash leaves.
//
// Invariants:
// - A node is a file or a directory. Its number is never used again.
// - A node stays while it has a name, while a power failure can bring its name back, and while a program has it open.
// - The room that is used is that of the nodes that have a name or are open, in blocks: one for the node, and those that were written.
// - Nothing here takes time or draws a random number that it was not given.

internal import ActorSockets
internal import SocketSystem

/// Programs that have a file open hold a reference, so that the disk knows.
final class OpenMark: Sendable {}

struct DiskState {
  private(set) var names = NameChanges()
  private(set) var files: [Int: StoredFile] = [:]
  private var marks: [Int: OpenMark] = [:]
  /// The files without a name that may still be needed.
  private var unlinked: [Int] = []
  private var nextNode = NameChanges.root + 1
  /// Of all nodes.
  private var blocks = 0
  /// In bytes.
  var capacity = 1 << 30
  /// In bytes, as in ext4.
  static let largestFile = 1 << 44

  // MARK: Paths

  /// The directory at a path.
  func directory(at path: ArraySlice<[UInt8]>, _ call: String) throws(SystemError) -> Int {
    var node = NameChanges.root
    for name in path {
      guard let next = names.visible[node]?[name] else { throw SystemError(call: call, errno: Errno.noSuchFile) }
      guard names.isDirectory(next) else { throw SystemError(call: call, errno: Errno.notADirectory) }
      node = next
    }
    return node
  }

  private func entry(at path: DiskPath, _ call: String) throws(SystemError) -> (entry: DirectoryEntry, node: Int?) {
    let directory = try directory(at: path.names.dropLast(), call)
    let entry = DirectoryEntry(directory: directory, name: path.names.last ?? [])
    return (entry, names.visible[directory]?[entry.name])
  }

  func list(_ path: DiskPath) throws(SystemError) -> [[UInt8]] {
    let node = try directory(at: path.names[...], "open")
    return names.visible[node, default: [:]].keys.sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// The path of each file and directory that has one.
  var paths: [Int: String] {
    var paths: [Int: String] = [:]
    var next = [(NameChanges.root, "")]
    while let (node, prefix) = next.popLast() {
      for (name, child) in names.visible[node, default: [:]] {
        let path = prefix + String(decoding: name, as: UTF8.self)
        paths[child] = path
        next.append((child, path + "/"))
      }
    }
    return paths
  }

  // MARK: Names

  mutating func open(_ path: DiskPath, _ creation: FileCreation) throws(SystemError) -> (node: Int, mark: OpenMark) {
    let (entry, node) = try entry(at: path, "open")
    if let node {
      if creation == .exclusive { throw SystemError(call: "open", errno: Errno.exists) }
      if names.isDirectory(node) { throw SystemError(call: "open", errno: Errno.isDirectory) }
      return (node, mark(of: node))
    }
    if creation == .never { throw SystemError(call: "open", errno: Errno.noSuchFile) }
    let new = try makeNode("open")
    files[new] = StoredFile()
    names.change(new, from: nil, to: entry)
    return (new, mark(of: new))
  }

  private mutating func mark(of node: Int) -> OpenMark {
    let mark = marks[node] ?? OpenMark()
    marks[node] = mark
    return mark
  }

  mutating func createDirectory(_ path: DiskPath) throws(SystemError) {
    let (entry, node) = try entry(at: path, "mkdir")
    if node != nil { throw SystemError(call: "mkdir", errno: Errno.exists) }
    let new = try makeNode("mkdir")
    names.addDirectory(new)
    names.change(new, from: nil, to: entry)
  }

  mutating func remove(_ path: DiskPath) throws(SystemError) {
    let (entry, node) = try entry(at: path, "unlink")
    guard let node else { throw SystemError(call: "unlink", errno: Errno.noSuchFile) }
    if names.isDirectory(node), names.visible[node]?.isEmpty == false {
      throw SystemError(call: "rmdir", errno: Errno.notEmpty)
    }
    names.change(node, from: entry, to: nil)
    unlinked.append(node)
    sweep()
  }

  mutating func rename(_ path: DiskPath, to newPath: DiskPath) throws(SystemError) {
    let (from, node) = try entry(at: path, "rename")
    let (to, replaced) = try entry(at: newPath, "rename")
    guard let node else { throw SystemError(call: "rename", errno: Errno.noSuchFile) }
    if names.isDirectory(node), newPath.names.count > path.names.count, newPath.names.starts(with: path.names) {
      throw SystemError(call: "rename", errno: Errno.invalidArgument)
    }
    if node == replaced { return }
    // Linux checks this before the kinds of the two.
    if path.names.count > newPath.names.count, path.names.starts(with: newPath.names) {
      throw SystemError(call: "rename", errno: Errno.notEmpty)
    }
    if let replaced {
      switch (names.isDirectory(node), names.isDirectory(replaced)) {
      case (true, false): throw SystemError(call: "rename", errno: Errno.notADirectory)
      case (false, true): throw SystemError(call: "rename", errno: Errno.isDirectory)
      case (true, true) where names.visible[replaced]?.isEmpty == false:
        throw SystemError(call: "rename", errno: Errno.notEmpty)
      default: break
      }
    }
    names.change(node, from: from, to: to, replacing: replaced)
    if let replaced {
      unlinked.append(replaced)
      sweep()
    }
  }

  // MARK: Files

  func count(of node: Int) -> Int { files[node]?.visible.count ?? 0 }

  func read(_ node: Int, _ range: Range<Int>) throws(SystemError) -> [UInt8] {
    guard let file = files[node] else { return [] }
    if !file.isReadable(range) { throw SystemError(call: "pread", errno: Errno.inputOutput) }
    return file.visible.bytes(in: range)
  }

  /// Writes what there is room for.
  mutating func write(_ bytes: [UInt8], at offset: Int, to node: Int) -> (count: Int, error: SystemError?) {
    let end = offset + bytes.count
    if end > Self.largestFile { return (0, SystemError(call: "pwrite", errno: Errno.fileTooLarge)) }
    var count = bytes.count
    if !hasRoom(for: newBlocks(node, offset..<end)) {
      // Block by block, because some of them may be there already.
      count = 0
      var new = 0
      while count < bytes.count {
        let next = min(end, ((offset + count) / SparseBytes.blockSize + 1) * SparseBytes.blockSize)
        new += newBlocks(node, (offset + count)..<next)
        if !hasRoom(for: new) { break }
        count = next - offset
      }
    }
    change(node) { $0.write(count == bytes.count ? bytes : Array(bytes[..<count]), at: offset) }
    return count == bytes.count ? (count, nil) : (count, SystemError(call: "pwrite", errno: Errno.noSpace))
  }

  private func newBlocks(_ node: Int, _ range: Range<Int>) -> Int { files[node]?.visible.newBlocks(for: range) ?? 0 }

  mutating func truncate(_ node: Int, to size: Int) throws(SystemError) {
    if size > Self.largestFile { throw SystemError(call: "ftruncate", errno: Errno.fileTooLarge) }
    change(node) { $0.truncate(to: size) }
  }

  mutating func change(_ node: Int, _ body: (inout StoredFile) -> Void) {
    guard var file = files.removeValue(forKey: node) else { return }
    let before = file.visible.blockCount
    body(&file)
    blocks += file.visible.blockCount - before
    files[node] = file
  }

  // MARK: Syncing

  func changes(of node: Int) -> Int { files[node]?.changes ?? 0 }

  /// Returns how many changes are now on the disk.
  mutating func synchronize(_ node: Int, upTo change: Int) -> Int {
    let before = files[node]?.synced ?? 0
    self.change(node) { $0.synchronize(upTo: change) }
    return (files[node]?.synced ?? 0) - before
  }

  mutating func failSync(_ node: Int, upTo change: Int, _ power: inout PowerLoss) -> FileLoss {
    var loss = FileLoss()
    self.change(node) { loss = $0.failSync(upTo: change, &power) }
    return loss
  }

  mutating func synchronizeDirectory(_ node: Int, before change: Int) -> Int {
    let count = names.synchronize(node, before: change)
    sweep()
    return count
  }

  // MARK: Crashes

  /// What a power failure has taken.
  struct Loss {
    var files: [(node: Int, loss: FileLoss)] = []
    var names: [NameChanges.Change] = []
  }

  mutating func losePower(data: inout PowerLoss, names power: inout PowerLoss) -> Loss {
    var loss = Loss()
    for node in files.keys.sorted() {
      var lost = FileLoss()
      change(node) { lost = $0.losePower(&data) }
      if !lost.isEmpty { loss.files.append((node, lost)) }
    }
    loss.names = names.losePower(&power)
    marks = [:]
    unlinked = []
    let reachable = names.keepReachable()
    files = files.filter { reachable.contains($0.key) }
    blocks = reachable.count - 1 + files.values.reduce(0) { $0 + $1.visible.blockCount }
    return loss
  }

  /// The programs that had files open have ended.
  mutating func closeAll() {
    marks = [:]
    sweep()
  }

  // MARK: Room

  private mutating func makeNode(_ call: String) throws(SystemError) -> Int {
    if !hasRoom(for: 1) { throw SystemError(call: call, errno: Errno.noSpace) }
    blocks += 1
    defer { nextNode += 1 }
    return nextNode
  }

  private var most: Int { max(0, capacity) / SparseBytes.blockSize }

  private mutating func hasRoom(for new: Int) -> Bool {
    if blocks + new <= most { return true }
    // A file without a name that is not open needs no room, but a power failure could bring it back.
    var free = 0
    for node in unlinked where !isOpen(node) { free += size(of: node) }
    if blocks - free + new > most { return false }
    if blocks + new > 2 * most {
      // Its memory is needed, too.
      names.synchronizeOldest(.max)
      sweep()
    }
    return true
  }

  private func size(of node: Int) -> Int { 1 + (files[node]?.visible.blockCount ?? 0) }

  private mutating func isOpen(_ node: Int) -> Bool {
    guard var mark = marks.removeValue(forKey: node) else { return false }
    defer { marks[node] = mark }
    return !isKnownUniquelyReferenced(&mark)
  }

  /// Frees the nodes that nothing can bring back.
  private mutating func sweep() {
    if unlinked.isEmpty { return }
    let needed = names.needed
    var left: [Int] = []
    for node in unlinked {
      if needed.contains(node) || isOpen(node) {
        left.append(node)
        continue
      }
      blocks -= size(of: node)
      files[node] = nil
      marks[node] = nil
      names.forget(node)
    }
    unlinked = left
  }
}
