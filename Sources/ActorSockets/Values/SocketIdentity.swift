public import EpollReactor

// Sockets are equal if they are the same object, so that they can be in sets and be the keys of dictionaries.

extension ReactorActor where Self: Hashable {
  /// Returns whether both are the same object.
  public static nonisolated func == (left: Self, right: Self) -> Bool { left === right }

  /// Hashes the identity of the object.
  public nonisolated func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
