/// The purpose of a deadline: its kind, and the number of the operation if a handler may have several of the kind.
package struct DeadlineTag: Hashable, Sendable {
  // In one word, because the loop keeps a tag with each of perhaps a million deadlines.
  private let word: UInt64

  /// Each kind of one handler has another number. `id` is less than 2^56; 0 if a handler has only one deadline of the kind.
  @inline(__always)
  package init(kind number: UInt8, id: UInt64 = 0) {
    assert(id >> 56 == 0, "the number \(id) is too large for a tag")
    word = id << 8 | UInt64(number)
  }

  package var number: UInt8 { UInt8(truncatingIfNeeded: word) }
  package var id: UInt64 { word >> 8 }
}
