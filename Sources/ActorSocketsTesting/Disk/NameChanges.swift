// The directories of a simulated disk: the names that programs see, those that are certainly on the disk, and the changes between them.
//
// Invariants:
// - A change survives a power failure as a whole or not at all. A rename never leaves both names or neither.
// - Two changes conflict if they concern one entry; if the later one removes the directory that the earlier one has changed; and if one of
//   them moves a directory. If a change survives, so do the earlier ones that conflict with it. So a name that was synced can only be lost
//   to a later change of the same program.
// - A sync of a directory covers the changes of its entries so far, and the earlier ones that conflict with these.

internal import EpollReactor

/// A name in a directory.
struct DirectoryEntry: Hashable {
  let directory: Int
  let name: [UInt8]
}

struct NameChanges {
  typealias Names = [[UInt8]: Int]

  struct Change {
    let number: Int
    /// The file or directory that is created, renamed or removed.
    let node: Int
    let removed: DirectoryEntry?
    let added: DirectoryEntry?
    /// The node that had the name before.
    let replaced: Int?
    /// The directory that no longer exists then.
    let removedDirectory: Int?
    let movesDirectory: Bool
  }

  /// With more of them, the oldest are written to the disk, as a kernel does after a while.
  static let mostPending = 1_024
  static let root = 0

  private(set) var visible: [Int: Names] = [root: [:]]
  private(set) var durable: [Int: Names] = [root: [:]]
  private(set) var pending: [Change] = []
  /// A sync that begins now covers the changes before this one.
  private(set) var next = 0

  func isDirectory(_ node: Int) -> Bool { visible[node] != nil }

  // MARK: Changing

  mutating func addDirectory(_ node: Int) {
    visible[node] = [:]
    durable[node] = [:]
  }

  /// Removes the names of a node that has no entry any more.
  mutating func forget(_ node: Int) {
    visible[node] = nil
    durable[node] = nil
  }

  mutating func change(
    _ node: Int, from removed: DirectoryEntry?, to added: DirectoryEntry?, replacing replaced: Int? = nil
  ) {
    let gone = added == nil ? node : replaced
    let change = Change(
      number: next, node: node, removed: removed, added: added, replaced: replaced,
      removedDirectory: gone.flatMap { isDirectory($0) ? $0 : nil },
      movesDirectory: removed != nil && added != nil && isDirectory(node))
    next += 1
    Self.apply(change, to: &visible)
    pending.append(change)
    if pending.count > Self.mostPending { synchronizeOldest(Self.mostPending / 2) }
  }

  private static func apply(_ change: Change, to directories: inout [Int: Names]) {
    if let entry = change.removed, directories[entry.directory]?[entry.name] == change.node {
      directories[entry.directory]?[entry.name] = nil
    }
    if let entry = change.added { directories[entry.directory]?[entry.name] = change.node }
  }

  /// The nodes that a power failure can bring back, apart from those that have a name.
  var needed: Set<Int> { Set(pending.flatMap { [$0.node] + ($0.replaced.map { [$0] } ?? []) }) }

  // MARK: Syncing

  mutating func synchronizeOldest(_ count: Int) {
    for change in pending.prefix(count) { Self.apply(change, to: &durable) }
    pending.removeFirst(min(count, pending.count))
  }

  /// The changes of the directory's entries before `end` are on the disk. Returns how many changes were written.
  @discardableResult
  mutating func synchronize(_ directory: Int, before end: Int) -> Int {
    // From the last to the first, because a change needs those before it.
    var needed: [Change] = []
    for change in pending.reversed() where change.number < end {
      if change.entries.contains(where: { $0.directory == directory })
        || needed.contains(where: { $0.conflicts(withEarlier: change) })
      {
        needed.append(change)
      }
    }
    let numbers = Set(needed.map(\.number))
    for change in needed.reversed() { Self.apply(change, to: &durable) }
    pending.removeAll { numbers.contains($0.number) }
    return needed.count
  }

  /// Returns the changes that were lost.
  mutating func losePower(_ power: inout PowerLoss) -> [Change] {
    var lost: [Change] = []
    for change in pending {
      let survives = power.survives()
      if survives, !lost.contains(where: { change.conflicts(withEarlier: $0) }) {
        Self.apply(change, to: &durable)
      } else {
        lost.append(change)
      }
    }
    pending = []
    visible = durable
    return lost
  }

  /// Removes the directories that no path leads to. Returns the nodes that have a path.
  mutating func keepReachable() -> Set<Int> {
    var reachable: Set<Int> = [Self.root]
    var next = [Self.root]
    while let node = next.popLast() {
      for child in visible[node, default: [:]].values where reachable.insert(child).inserted { next.append(child) }
    }
    visible = visible.filter { reachable.contains($0.key) }
    durable = durable.filter { reachable.contains($0.key) }
    return reachable
  }
}

extension NameChanges.Change {
  var entries: [DirectoryEntry] { [removed, added].compactMap { $0 } }

  func conflicts(withEarlier other: Self) -> Bool {
    if movesDirectory || other.movesDirectory { return true }
    if let removedDirectory, other.entries.contains(where: { $0.directory == removedDirectory }) { return true }
    return other.entries.contains { entry in entry == removed || entry == added }
  }
}
