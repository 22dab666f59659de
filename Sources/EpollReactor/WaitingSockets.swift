/// The sockets that have asked for another turn, and those that ask for one when a descriptor is closed.
struct WaitingSockets {
  private var rescheduled: [Registration] = []
  private var awaitingClosedDescriptor: [Registration] = []

  /// Whether no socket waits for another turn.
  var isEmpty: Bool { rescheduled.isEmpty }

  mutating func reschedule(_ registration: Registration) { rescheduled.append(registration) }
  mutating func awaitClosedDescriptor(_ registration: Registration) { awaitingClosedDescriptor.append(registration) }

  /// Takes the sockets that wait for another turn, in their order.
  mutating func takeRescheduled() -> [Registration] {
    var taken: [Registration] = []
    swap(&taken, &rescheduled)
    return taken
  }

  /// Puts sockets back that have had no turn. They come before those that have asked meanwhile.
  mutating func putBack(_ taken: ArraySlice<Registration>) { rescheduled.insert(contentsOf: taken, at: 0) }

  /// Takes the empty array back, so that its memory is reused.
  mutating func reuse(_ empty: inout [Registration]) { if rescheduled.isEmpty { swap(&empty, &rescheduled) } }

  /// Takes the sockets that wait for a closed descriptor.
  mutating func takeAwaitingClosedDescriptor() -> [Registration] {
    defer { awaitingClosedDescriptor = [] }
    return awaitingClosedDescriptor
  }
}
