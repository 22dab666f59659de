internal import SocketSystem

/// Pieces of memory that code of the user may see. While it does, others get another piece.
struct LentMemory<Memory: AnyObject> {
  private var pieces: [Memory] = []
  private var lent = 0

  /// `nil` if the next piece has not been made.
  var available: Memory? { lent < pieces.count ? pieces[lent] : nil }

  mutating func add(_ memory: Memory) { pieces.append(memory) }
  mutating func lend() { lent += 1 }
  mutating func giveBack() { lent -= 1 }
}

/// More than one piece of a kind is needed only if code that sees the bytes of the first makes another socket receive.
struct LoopMemory {
  var scratches = LentMemory<ScratchMemory>()
  var batches = LentMemory<DatagramBatch>()

  /// The most bytes that one receive reads beyond those that were asked for.
  static let scratchSize = 65_536

  mutating func scratch() -> ScratchMemory {
    if let scratch = scratches.available { return scratch }
    let scratch = ScratchMemory(count: Self.scratchSize)
    scratches.add(scratch)
    return scratch
  }

  mutating func batch() -> DatagramBatch? {
    if let batch = batches.available { return batch }
    guard let batch = DatagramBatch() else { return nil }
    batches.add(batch)
    return batch
  }
}
