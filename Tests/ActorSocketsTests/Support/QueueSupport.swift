@testable import ActorSockets

extension WriteQueue {
  func withUnsent<Result>(
    maximumPieces: Int, maximumBytes: Int, _ body: (ArraySlice<[UInt8]>, _ skipping: Int) -> Result
  ) -> Result {
    let (pieces, offset) = unsent(maximumPieces: maximumPieces, maximumBytes: maximumBytes)
    return body(pieces, offset)
  }
}

/// Every way to cut a stream into parts.
func allSplits(of stream: [UInt8]) -> some Sequence<[ArraySlice<UInt8>]> {
  (0..<(1 << max(0, stream.count - 1))).lazy.map { cuts in
    var chunks: [ArraySlice<UInt8>] = []
    var start = 0
    for index in stream.indices where index == stream.count - 1 || cuts >> index & 1 == 1 {
      chunks.append(stream[start...index])
      start = index + 1
    }
    return chunks
  }
}
