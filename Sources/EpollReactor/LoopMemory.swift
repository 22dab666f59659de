internal import SocketSystem

/// Pieces of memory that code of the user may see. While it does, others get another piece.
struct LentMemory<Memory: AnyObject> {
  private var pieces: [Memory] = []
  private var lent = 0

  /// The piece that is not lent, if it has been made.
  var available: Memory? { lent < pieces.count ? pieces[lent] : nil }

  mutating func add(_ memory: Memory) { pieces.append(memory) }
  mutating func lend() { lent += 1 }
  mutating func giveBack() { lent -= 1 }
}

/// The memory of a loop to receive and send with. More than one piece of a kind is needed only if code that sees the bytes of the first
/// makes another socket receive.
struct LoopMemory {
  var scratches = LentMemory<ScratchMemory>()
  var batches = LentMemory<DatagramBatch>()

  /// The size of a receive buffer: the largest number of bytes that one receive reads beyond those that were asked for.
  static let scratchSize = 65_536

  /// The memory to receive into now.
  mutating func scratch() -> ScratchMemory {
    if let scratch = scratches.available { return scratch }
    let scratch = ScratchMemory(count: Self.scratchSize)
    scratches.add(scratch)
    return scratch
  }

  /// The memory for datagrams now; `nil` if it cannot be allocated.
  mutating func batch() -> DatagramBatch? {
    if let batch = batches.available { return batch }
    guard let batch = DatagramBatch() else { return nil }
    batches.add(batch)
    return batch
  }
}
