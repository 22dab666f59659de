// A file of a simulated disk: what programs see, what is certainly on the disk, and the changes between the two.
//
// Invariants:
// - `durable` has every change up to `synced`, in order; after a failed sync, each of its changes or a part of it, or not.
// - `pending` has the later changes, in order. Without a failed sync, `visible` is `durable` with all of them.
// - A power failure makes `visible` equal to `durable` after each pending change has had its own fate.
// - A sector is written as a whole or not at all, and a later write of a sector is never overwritten by an earlier one.

internal import EpollReactor

struct StoredFile {
  enum Change {
    case write([UInt8], at: Int)
    case truncate(to: Int)
  }

  static let sectorSize = 512
  /// With more of them, the oldest are written to the disk, as a kernel does after a while.
  static let mostPending = 4_096
  static let mostPendingBytes = 1 << 24

  private(set) var visible = SparseBytes()
  private(set) var durable = SparseBytes()
  private(set) var pending: [Change] = []
  private var pendingBytes = 0
  /// How many changes were synced, or taken out of `pending` otherwise.
  private(set) var synced = 0
  /// Whether a sync has failed, so that `durable` may lack what is visible and not pending.
  private var hasFailed = false
  /// Sectors that cannot be read until they are written.
  private var unreadable: Set<Int> = []

  /// A sync that begins now covers the changes up to this one.
  var changes: Int { synced + pending.count }

  // MARK: Changing

  mutating func write(_ bytes: [UInt8], at offset: Int) {
    if bytes.isEmpty { return }
    visible.write(bytes[...], at: offset)
    if !unreadable.isEmpty { unreadable.subtract(Self.sectors(of: offset..<(offset + bytes.count))) }
    add(.write(bytes, at: offset))
  }

  mutating func truncate(to size: Int) {
    if size == visible.count, !hasFailed { return }
    visible.resize(to: size)
    if !unreadable.isEmpty { unreadable = unreadable.filter { $0 * Self.sectorSize < size } }
    add(.truncate(to: size))
  }

  private mutating func add(_ change: Change) {
    pending.append(change)
    pendingBytes += change.size
    if pending.count > Self.mostPending { synchronize(upTo: changes - Self.mostPending / 2) }
    // The last change always has a fate of its own, however large it is.
    while pendingBytes > Self.mostPendingBytes, pending.count > 1 { synchronize(upTo: synced + pending.count / 2) }
  }

  // MARK: Syncing

  /// Everything up to this change is on the disk.
  mutating func synchronize(upTo change: Int) {
    for change in takePending(upTo: change) { Self.apply(change, to: &durable) }
  }

  /// The sync has failed. As on Linux, the changes that it covered are not tried again.
  mutating func failSync(upTo change: Int, _ power: inout PowerLoss) -> FileLoss {
    hasFailed = true
    return decide(takePending(upTo: change), &power)
  }

  mutating func losePower(_ power: inout PowerLoss) -> FileLoss {
    let loss = decide(takePending(upTo: changes), &power)
    visible = durable
    hasFailed = false
    return loss
  }

  private mutating func takePending(upTo change: Int) -> ArraySlice<Change> {
    let count = min(max(0, change - synced), pending.count)
    let taken = pending[..<count]
    pending = Array(pending[count...])
    synced += count
    for change in taken { pendingBytes -= change.size }
    return taken
  }

  private static func apply(_ change: Change, to bytes: inout SparseBytes) {
    switch change {
    case .write(let new, let offset): bytes.write(new[...], at: offset)
    case .truncate(let size): bytes.resize(to: size)
    }
  }

  private mutating func decide(_ changes: ArraySlice<Change>, _ power: inout PowerLoss) -> FileLoss {
    var loss = FileLoss()
    for change in changes {
      if power.survives() {
        Self.apply(change, to: &durable)
        continue
      }
      guard case .write(let bytes, let offset) = change else {
        loss.lost += 1
        continue
      }
      let end = offset + bytes.count
      let sectors = Array(Self.sectors(of: offset..<end))
      if let surviving = power.survivingSectors(of: sectors.count) {
        for (sector, survives) in zip(sectors, surviving) where survives {
          let start = max(offset, sector * Self.sectorSize)
          let stop = min(end, (sector + 1) * Self.sectorSize)
          durable.write(bytes[(start - offset)..<(stop - offset)], at: start)
        }
        let missing = zip(sectors, surviving).first { !$0.1 }?.0 ?? 0
        loss.torn.append(max(offset, missing * Self.sectorSize))
      } else {
        loss.lost += 1
      }
      // The size is stored elsewhere than the bytes.
      if end > durable.count, power.happens() {
        durable.resize(to: end)
        loss.zeroed += 1
      }
    }
    return loss
  }

  static func sectors(of range: Range<Int>) -> Range<Int> {
    (range.lowerBound / sectorSize)..<((range.upperBound + sectorSize - 1) / sectorSize)
  }

  // MARK: Damage

  func isReadable(_ range: Range<Int>) -> Bool {
    unreadable.isEmpty || unreadable.isDisjoint(with: Self.sectors(of: range.clamped(to: 0..<visible.count)))
  }

  /// The sector at an offset cannot be read until it is written again.
  mutating func damage(at offset: Int) { unreadable.insert(offset / Self.sectorSize) }

  /// A bit changes on the disk, and no one is told.
  mutating func flip(bit: Int, at offset: Int) {
    if offset >= visible.count { return }
    for path in [\StoredFile.visible, \StoredFile.durable] {
      guard let byte = self[keyPath: path].bytes(in: offset..<(offset + 1)).first else { continue }
      self[keyPath: path].write([byte ^ (1 << UInt8(bit & 7))], at: offset)
    }
  }
}

extension StoredFile.Change {
  /// The memory that it takes in bytes.
  fileprivate var size: Int {
    switch self {
    case .write(let bytes, _): bytes.count
    case .truncate: 0
    }
  }
}
