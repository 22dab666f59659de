package typealias DeadlineKey = DeadlineQueue<Deadline>.Key

/// An armed deadline. It names its registration by the slot in the table and the serial number, so a deadline that was not disarmed keeps
/// neither a dropped socket nor its reactor alive.
package struct Deadline {
  let slot: Int
  let serial: UInt64
  let tag: DeadlineTag
  /// The turns of the socket when the deadline was put off for the first time; `nil` until then.
  var turnsBefore: Int?

  /// The turns that a socket gets before its deadline: 16 MiB, more than the kernel keeps for it by default.
  static var maxTurns: Int { 64 }
}
