internal import Synchronization

/// Numbers for connections, each of which is given out once.
enum ConnectionNumbers {
  private static let counter = Atomic<UInt64>(0)

  static func next() -> UInt64 { counter.add(1, ordering: .relaxed).newValue }
}
