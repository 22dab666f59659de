import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct InterfaceChangesTests {
  private static let lists = (0..<3).map { count in
    (0..<count).map { NetworkInterface(name: "eth\($0)", index: UInt32($0 + 1), flags: .up, addresses: []) }
  }

  @Test func `The list is read for the first call, and after a notice`() {
    var changes = InterfaceChanges()
    #expect(changes.isStale)
    _ = changes.wasRead(Self.lists[0])
    #expect(!changes.isStale)
    changes.noticed()
    #expect(changes.isStale)
    _ = changes.wasRead(Self.lists[0])
    #expect(!changes.isStale)
  }

  @Test func `A loop gets its first list at once, even an empty one, and then only lists that differ`() {
    var changes = InterfaceChanges()
    _ = changes.wasRead(Self.lists[0])
    #expect(changes.next(after: nil) == Self.lists[0])
    #expect(changes.next(after: Self.lists[0]) == nil)
    #expect(changes.next(after: Self.lists[1]) == Self.lists[0])
  }

  @Test func `A loop that missed a change which was taken back waits`() {
    var changes = InterfaceChanges()
    for list in [Self.lists[1], Self.lists[2], Self.lists[1]] {
      changes.noticed()
      _ = changes.wasRead(list)
    }
    #expect(changes.next(after: Self.lists[1]) == nil)
    #expect(changes.next(after: Self.lists[2]) == Self.lists[1])
  }

  @Test func `Calls that wait get a list that differs from the one before`() {
    var changes = InterfaceChanges()
    _ = changes.wasRead(Self.lists[1])
    let differs = [1, 2, 2].map { changes.wasRead(Self.lists[$0]) }
    #expect(differs == [false, true, false])
  }
}
