// The disk of a host with its faults: a pure machine. The seed decides the faults, apart from those that a test has planned.
//
// Invariants:
// - A write is visible when it is made. It is durable when a sync that began later has ended without an error.
// - Without faults, only latencies and power failures draw random numbers.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

struct HostDisk {
  var state = DiskState()
  var properties = DiskProperties() { didSet { state.capacity = properties.capacity } }
  private var random: SplitMix
  private var planned: [(call: SimulatedDisk.Call, after: Int)] = []

  init(_ random: SplitMix) { self.random = random }

  // MARK: Faults

  mutating func failNext(_ call: SimulatedDisk.Call, after count: Int) { planned.append((call, max(0, count))) }

  /// Whether a call fails.
  private mutating func fails(_ call: SimulatedDisk.Call) -> Bool {
    // One plan is for one call. So several plans for the next one let as many calls fail.
    let plan = planned.firstIndex { $0.call == call && $0.after == 0 }
    let fails = plan != nil
    if let plan { planned.remove(at: plan) }
    for index in planned.indices where planned[index].call == call && planned[index].after > 0 {
      planned[index].after -= 1
    }
    let fraction =
      switch call {
      case .read: properties.failedReads
      case .write: properties.failedWrites
      case .synchronize: properties.failedSynchronizations
      }
    return happens(fraction) || fails
  }

  private mutating func happens(_ fraction: Double) -> Bool { fraction > 0 && random.fraction() < fraction }

  private mutating func number(below count: Int) -> Int { Int(random.next(upTo: UInt64(max(1, count)))) }

  /// In nanoseconds.
  mutating func latency(_ call: SimulatedDisk.Call) -> Int64 {
    let range =
      switch call {
      case .read: properties.readLatency
      case .write: properties.writeLatency
      case .synchronize: properties.synchronizeLatency
      }
    let (least, most) = (max(0, range.lowerBound.clampedNanoseconds), max(0, range.upperBound.clampedNanoseconds))
    return instant(least, plus: Int64(random.fraction() * Double(most - least)))
  }

  // MARK: Calls

  /// A change of names or sizes, which happens as a whole or not at all.
  mutating func change<Result>(_ call: String, _ body: (inout DiskState) throws(SystemError) -> Result)
    throws(SystemError) -> Result
  {
    if fails(.write) { throw SystemError(call: call, errno: Errno.inputOutput) }
    return try body(&state)
  }

  mutating func read(_ node: Int, _ range: Range<Int>) throws(SystemError) -> (bytes: [UInt8], areCorrupt: Bool) {
    if fails(.read) { throw SystemError(call: "pread", errno: Errno.inputOutput) }
    var bytes = try state.read(node, range)
    if bytes.isEmpty || !happens(properties.corruptReads) { return (bytes, false) }
    corrupt(&bytes, node, at: range.lowerBound)
    return (bytes, true)
  }

  private mutating func corrupt(_ bytes: inout [UInt8], _ node: Int, at offset: Int) {
    let size = StoredFile.sectorSize
    let place = number(below: bytes.count)
    let others = state.count(of: node) / size
    if others > 1, number(below: 2) == 0 {
      // A sector from another place.
      let sector = (offset + place) / size
      let other = (sector + 1 + number(below: others - 1)) % others
      let start = max(offset, sector * size)
      let stop = min(offset + bytes.count, (sector + 1) * size)
      let wrong = (try? state.read(node, (other * size)..<((other + 1) * size))) ?? []
      let (first, last) = (start - sector * size, min(stop - sector * size, wrong.count))
      let range = (start - offset)..<(start - offset + max(0, last - first))
      // Another sector may have the same bytes.
      if first < last, bytes[range] != wrong[first..<last] {
        bytes.replaceSubrange(range, with: wrong[first..<last])
        return
      }
    }
    bytes[place] ^= 1 << UInt8(number(below: 8))
  }

  struct Written {
    /// Where the bytes went.
    let offset: Int
    let count: Int
    let error: SystemError?
    /// The offset of a byte in a sector that cannot be read from now on.
    var unreadable: Int?
  }

  /// With `offset` nil, at the end of the file.
  mutating func write(_ bytes: [UInt8], at offset: Int?, to node: Int) -> Written {
    let offset = offset ?? state.count(of: node)
    if !bytes.isEmpty, fails(.write) {
      // The sectors before the one that has failed.
      let sectors = number(below: StoredFile.sectors(of: offset..<(offset + bytes.count)).count)
      let end = (offset / StoredFile.sectorSize + sectors) * StoredFile.sectorSize
      let count = state.write(Array(bytes.prefix(max(0, end - offset))), at: offset, to: node).count
      return Written(offset: offset, count: count, error: SystemError(call: "pwrite", errno: Errno.inputOutput))
    }
    let (count, error) = state.write(bytes, at: offset, to: node)
    var written = Written(offset: offset, count: count, error: error)
    if count > 0, happens(properties.latentErrors) {
      let place = offset + number(below: count)
      state.change(node) { $0.damage(at: place) }
      written.unreadable = place
    }
    return written
  }

  enum SyncOutcome {
    case synchronized(changes: Int)
    case failed(FileLoss)
  }

  mutating func synchronize(_ node: Int, upTo change: Int) -> SyncOutcome {
    if !fails(.synchronize) { return .synchronized(changes: state.synchronize(node, upTo: change)) }
    var power = PowerLoss(&random)
    return .failed(state.failSync(node, upTo: change, &power))
  }

  /// After a failure, the names can still be synchronized later.
  mutating func synchronizeDirectory(_ node: Int, before change: Int) throws(SystemError) -> Int {
    if fails(.synchronize) { throw SystemError(call: "fsync", errno: Errno.inputOutput) }
    return state.synchronizeDirectory(node, before: change)
  }

  /// Returns lines that say what was lost.
  mutating func losePower() -> [String] {
    let paths = state.paths
    var (data, names) = (PowerLoss(&random), PowerLoss(&random))
    let loss = state.losePower(data: &data, names: &names)
    var lines = loss.files.map { node, loss in
      loss.text(paths[node].map { AddressError.quote($0) } ?? "a removed file")
    }
    if !loss.names.isEmpty {
      let names = loss.names.prefix(5).map { change in
        let name = (change.added ?? change.removed)?.name ?? []
        let what = change.removed == nil ? "creation" : change.added == nil ? "removal" : "renaming"
        return "the \(what) of \(AddressError.quote(String(decoding: name, as: UTF8.self)))"
      }
      lines.append(
        "lost \(names.joined(separator: ", "))\(loss.names.count > 5 ? " and \(loss.names.count - 5) more" : "")")
    }
    return lines
  }
}
