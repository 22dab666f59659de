internal import SocketSystem

// Which list of interfaces a loop over the changes gets: a pure value.
//
// Invariants:
// - The list is read after a notice, and only if a call wants it. So a notice whose change a list already has costs one more reading, and
//   no change is missed.
// - A call gets a list only if it differs from the one that its loop got last. So a call that waits has the list that was read last, and
//   all calls that wait get the next one.

struct InterfaceChanges {
  private var list: [NetworkInterface] = []
  /// The kernel's list may differ. Initially, the list has not been read.
  private(set) var isStale = true

  mutating func noticed() { isStale = true }

  /// Returns whether the calls that wait get this list.
  mutating func wasRead(_ list: [NetworkInterface]) -> Bool {
    isStale = false
    defer { self.list = list }
    return list != self.list
  }

  /// Returns the list for a call whose loop got `last`; `nil` if the call must wait. The list must not be stale.
  func next(after last: [NetworkInterface]?) -> [NetworkInterface]? {
    assert(!isStale, "the list is read before a call gets it")
    return list == last ? nil : list
  }
}
