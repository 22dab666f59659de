import Foundation
import TestSupport
import Testing

@Suite(.needsNamespaces) struct NamespaceTests {
  private static func network(of thread: String) throws -> String {
    try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(thread)/ns/net")
  }

  @Test func `A thread that was in a network is back in that of the process afterwards`() async throws {
    let network = try await Namespace()
    let (inside, after) = try await onThread {
      let inside = try network.inside { try Self.network(of: "thread-self") }
      return (inside, try Self.network(of: "thread-self"))
    }
    let home = try Self.network(of: "self")
    #expect(inside != home)
    #expect(after == home)
  }
}
