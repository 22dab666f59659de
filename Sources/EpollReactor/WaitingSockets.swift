/// The sockets that have asked for another turn, and those that ask for one when a descriptor is closed.
struct WaitingSockets {
  private var rescheduled: [Registration] = []
  private var awaitingClosedDescriptor: [Registration] = []

  var isEmpty: Bool { rescheduled.isEmpty }

  mutating func reschedule(_ registration: Registration) { rescheduled.append(registration) }
  mutating func awaitClosedDescriptor(_ registration: Registration) { awaitingClosedDescriptor.append(registration) }

  mutating func takeRescheduled() -> [Registration] {
    var taken: [Registration] = []
    swap(&taken, &rescheduled)
    return taken
  }

  /// Puts sockets back that have had no turn. They come before those that have asked meanwhile.
  mutating func putBack(_ taken: ArraySlice<Registration>) { rescheduled.insert(contentsOf: taken, at: 0) }

  /// The memory of the empty array is reused.
  mutating func reuse(_ empty: inout [Registration]) { if rescheduled.isEmpty { swap(&empty, &rescheduled) } }

  mutating func takeAwaitingClosedDescriptor() -> [Registration] {
    defer { awaitingClosedDescriptor = [] }
    return awaitingClosedDescriptor
  }
}
