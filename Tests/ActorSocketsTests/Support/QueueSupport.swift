@testable import ActorSockets

extension WriteQueue {
  /// Shows the unsent bytes to a closure.
  func withUnsent<Result>(
    maximumPieces: Int, maximumBytes: Int, _ body: (ArraySlice<[UInt8]>, _ skipping: Int) -> Result
  ) -> Result {
    let (pieces, offset) = unsent(maximumPieces: maximumPieces, maximumBytes: maximumBytes)
    return body(pieces, offset)
  }
}
