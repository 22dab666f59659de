import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct DeadlineTagTests {
  private static let ids: [UInt64] = [0, 1, 2, 255, 256, 1 << 32, (1 << 56) - 1]
  private static let kinds = (0...UInt8.max).compactMap { DeadlineKind(rawValue: $0) }

  @Test func `A tag has the kind and the number that it was made with`() {
    for kind in Self.kinds {
      for id in Self.ids {
        let tag = DeadlineTag(kind, id)
        #expect(tag.kind == kind && tag.id == id && tag.number == kind.rawValue)
      }
    }
    let all = Self.kinds.flatMap { kind in Self.ids.map { DeadlineTag(kind, $0) } }
    #expect(Set(all).count == all.count)
  }

  @Test func `A deadline that its handler never arms stops the program, and the message names the handler`() async {
    let results = [
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        await InMemoryConnection.pair().0.deadlineReached(DeadlineTag(.accept))
      },
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await TCPListener.bind(to: .port(0)).deadlineReached(DeadlineTag(.read))
      },
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        await InMemoryListener().deadlineReached(DeadlineTag(.retry))
      },
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await UDPEndpoint.bind().deadlineReached(DeadlineTag(kind: .max))
      },
    ]
    for (result, name) in zip(results, ["StreamCore", "TCPListener", "InMemoryListener", "UDPEndpoint"]) {
      let said = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
      #expect(said.contains("\(name) got a deadline that it never arms"), "\(said)")
    }
  }
}
