import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// What a power failure may do to one file, compared with all that the un-synced changes allow.
@Suite(.tags(.pure)) struct StoredFileTests {
  private static let sector = StoredFile.sectorSize

  private enum Change {
    case write([UInt8], at: Int)
    case truncate(Int)
  }

  /// A file that keeps every change since the last sync.
  private struct Model {
    var durable: [UInt8] = []
    var visible: [UInt8] = []
    var pending: [Change] = []

    static func apply(_ change: Change, to bytes: inout [UInt8], only range: Range<Int>? = nil) {
      switch change {
      case .write(let new, let offset):
        for (index, byte) in new.enumerated() where range?.contains(offset + index) ?? true {
          while bytes.count <= offset + index { bytes.append(0) }
          bytes[offset + index] = byte
        }
      case .truncate(let size):
        bytes = size < bytes.count ? Array(bytes[..<size]) : bytes + [UInt8](repeating: 0, count: size - bytes.count)
      }
    }

    mutating func change(_ change: Change) {
      Self.apply(change, to: &visible)
      pending.append(change)
    }

    /// An objection to the contents after a power failure; `nil` if the changes allow them.
    func objection(to contents: [UInt8]) -> String? {
      let sizes = pending.map {
        switch $0 {
        case .write(let bytes, let offset): offset + bytes.count
        case .truncate(let size): size
        }
      }
      // A torn write may end at any of its sectors.
      let isSector = contents.count % sector == 0 && contents.count <= max(durable.count, sizes.max() ?? 0)
      if ![durable.count].contains(contents.count), !sizes.contains(contents.count), !isSector {
        return "no change makes the file \(contents.count) bytes long"
      }
      for start in stride(from: 0, to: contents.count, by: sector) {
        let range = start..<min(contents.count, start + sector)
        if !possible(in: start..<(start + sector), contents.count).contains(Array(contents[range])) {
          return "no changes leave these bytes at \(start)"
        }
      }
      return nil
    }

    /// What a sector may contain: that of each subset of the changes, in their order.
    private func possible(in range: Range<Int>, _ count: Int) -> Set<[UInt8]> {
      var states: Set<[UInt8]> = [durable]
      for change in pending {
        for state in states {
          var next = state
          Self.apply(change, to: &next, only: range)
          states.insert(next)
        }
      }
      return Set(
        states.map { state in
          let part = state.count > range.lowerBound ? state[range.lowerBound..<min(state.count, range.upperBound)] : []
          let size = min(count, range.upperBound) - range.lowerBound
          return Array(part.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - part.count))
        })
    }
  }

  @Test(arguments: 0..<40 as Range<UInt64>) func `A power failure leaves what the changes since the last sync allow`(
    seed: UInt64
  ) {
    for round in 0..<seeds(10, atMost: 2_000) {
      var random = SeededRandom(seed: seed &* 1_000_003 &+ round)
      var disk = SplitMix(seed: random.next())
      var (file, model) = (StoredFile(), Model())
      var next: UInt8 = 1
      for _ in 0..<3 {
        for _ in 0..<Int.random(in: 0...6, using: &random) {
          if Int.random(in: 0..<5, using: &random) == 0 {
            let size = Int.random(in: 0...(5 * Self.sector), using: &random)
            file.truncate(to: size)
            if size != model.visible.count { model.change(.truncate(size)) }
          } else {
            let offset = Int.random(in: 0...(4 * Self.sector), using: &random)
            let bytes = [UInt8](repeating: next, count: Int.random(in: 1...(3 * Self.sector), using: &random))
            next += 1
            file.write(bytes, at: offset)
            model.change(.write(bytes, at: offset))
          }
          #expect(file.visible.bytes(in: 0..<file.visible.count) == model.visible)
          if Int.random(in: 0..<4, using: &random) == 0 {
            file.synchronize(upTo: file.changes)
            (model.durable, model.pending) = (model.visible, [])
          }
        }
        var power = PowerLoss(&disk)
        let loss = file.losePower(&power)
        let contents = file.visible.bytes(in: 0..<file.visible.count)
        let objection = model.objection(to: contents)
        #expect(objection == nil, "seed \(seed), round \(round)")
        if model.pending.isEmpty { #expect(loss.isEmpty && contents == model.durable) }
        (model.durable, model.visible, model.pending) = (contents, contents, [])
      }
    }
  }

  /// What happens to two writes, of which the second makes the file longer, with many seeds.
  private func fates(of count: Int) -> [(contents: [UInt8], loss: FileLoss)] {
    (0..<400 as Range<UInt64>).map { seed in
      var (file, disk) = (StoredFile(), SplitMix(seed: seed))
      file.write([UInt8](repeating: 1, count: count), at: 0)
      file.write([UInt8](repeating: 2, count: count), at: count)
      var power = PowerLoss(&disk)
      let loss = file.losePower(&power)
      return (file.visible.bytes(in: 0..<file.visible.count), loss)
    }
  }

  @Test func `Writes survive, are lost, are torn and leave zeros, each of them sometimes`() {
    let size = 4 * Self.sector
    let all = fates(of: size)
    func count(_ isWanted: ([UInt8], FileLoss) -> Bool) -> Int { all.count { isWanted($0.contents, $0.loss) } }
    #expect(count { $1.isEmpty && $0.count == 2 * size } > 40)
    #expect(count { $0.isEmpty && $1.lost == 2 } > 40)
    // The later one without the earlier one.
    #expect(count { bytes, _ in bytes.contains(2) && !bytes.contains(1) } > 10)
    #expect(count { !$1.torn.isEmpty } > 40)
    #expect(count { bytes, _ in bytes.count == 2 * size && bytes.allSatisfy { $0 == 0 } } > 0)
    for (contents, loss) in all where loss.torn == [Self.sector] {
      #expect(contents[Self.sector] != 1 && contents[..<Self.sector].allSatisfy { $0 == 1 })
    }
  }

  @Test func `A write within one sector is never torn`() {
    for (contents, loss) in fates(of: Self.sector / 2) {
      #expect(loss.torn.isEmpty)
      for start in stride(from: 0, to: contents.count, by: Self.sector / 2) {
        #expect(Set(contents[start..<(start + Self.sector / 2)]).count == 1)
      }
    }
  }

  @Test func `A sync covers the changes before it, and no later one`() {
    var found = false
    for seed in 0..<50 as Range<UInt64> {
      var (file, disk) = (StoredFile(), SplitMix(seed: seed))
      file.write([1], at: 0)
      let end = file.changes
      file.write([2], at: 1)
      file.synchronize(upTo: end)
      #expect(file.pending.count == 1)
      var power = PowerLoss(&disk)
      _ = file.losePower(&power)
      let bytes = file.visible.bytes(in: 0..<2)
      #expect(bytes.first == 1)
      if bytes.count == 1 { found = true }
    }
    #expect(found)
  }

  @Test func `After a failed sync, a later one succeeds without what the first has lost`() {
    var lost = 0
    for seed in 0..<50 as Range<UInt64> {
      var (file, disk) = (StoredFile(), SplitMix(seed: seed))
      file.write([1], at: 0)
      var power = PowerLoss(&disk)
      let loss = file.failSync(upTo: file.changes, &power)
      #expect(file.visible.bytes(in: 0..<1) == [1])
      file.synchronize(upTo: file.changes)
      _ = file.losePower(&power)
      #expect(file.visible.bytes(in: 0..<1) == (loss.isEmpty ? [1] : loss.zeroed > 0 ? [0] : []))
      if !loss.isEmpty { lost += 1 }
    }
    #expect(lost > 10)
  }

  @Test func `Changes that wait for a sync have a limit`() {
    var file = StoredFile()
    for number in 0..<(3 * StoredFile.mostPending) {
      file.write([UInt8(truncatingIfNeeded: number)], at: 0)
      #expect(file.pending.count <= StoredFile.mostPending)
    }
    let piece = [UInt8](repeating: 1, count: StoredFile.mostPendingBytes / 4)
    for _ in 0..<9 { file.write(piece, at: 0) }
    #expect(file.pending.count <= 4)
    #expect(file.durable.count == piece.count)
  }

  @Test func `A large write can be lost, too, if it is the only change`() {
    let count = StoredFile.mostPendingBytes + 1
    var sizes: Set<Int> = []
    for seed in 0..<8 as Range<UInt64> {
      var (file, disk) = (StoredFile(), SplitMix(seed: seed))
      file.write([UInt8](repeating: 1, count: count), at: 0)
      #expect(file.pending.count == 1 && file.durable.count == 0)
      var power = PowerLoss(&disk)
      _ = file.losePower(&power)
      sizes.insert(file.visible.count)
    }
    #expect(sizes.contains(0) && sizes.contains(count))
  }

  @Test func `After a failed sync, the same size can be set once more, and is then on the disk`() {
    var lost = 0
    for seed in 0..<50 as Range<UInt64> {
      var (file, disk) = (StoredFile(), SplitMix(seed: seed))
      file.write([1, 2, 3], at: 0)
      file.synchronize(upTo: file.changes)
      file.truncate(to: 0)
      var power = PowerLoss(&disk)
      if !file.failSync(upTo: file.changes, &power).isEmpty { lost += 1 }
      file.truncate(to: 0)
      file.synchronize(upTo: file.changes)
      _ = file.losePower(&power)
      #expect(file.visible.count == 0)
    }
    #expect(lost > 10)
  }

  @Test func `A bit beyond the end of the file does not exist`() {
    var file = StoredFile()
    file.write([1], at: 0)
    for offset in [1, Int.max] { file.flip(bit: 0, at: offset) }
    #expect(file.visible.bytes(in: 0..<10) == [1])
    file.flip(bit: 1, at: 0)
    #expect(file.visible.bytes(in: 0..<10) == [3])
  }

  @Test func `One line tells of all losses of a file`() {
    #expect(FileLoss(lost: 2, torn: [512]).text("log") == "lost 2 un-synced changes of log, tore one at 512")
    #expect(FileLoss(torn: [0, 512], zeroed: 1).text("log") == "tore 2 of log at 0, 512, left zeros")
    #expect(FileLoss(lost: 1).text("log") == "lost 1 un-synced change of log")
  }

  @Test func `Blocks that were never written are zeros and take no memory`() {
    var bytes = SparseBytes()
    bytes.write([7], at: 1 << 40)
    #expect(bytes.blockCount == 1 && bytes.count == (1 << 40) + 1)
    #expect(bytes.bytes(in: 100..<103) == [0, 0, 0])
    bytes.resize(to: 4_097)
    #expect(bytes.blockCount == 0)
    bytes.write([1, 2, 3], at: 4_095)
    bytes.resize(to: 4_097)
    bytes.resize(to: 5_000)
    #expect(bytes.bytes(in: 4_094..<4_099) == [0, 1, 2, 0, 0])
  }
}
