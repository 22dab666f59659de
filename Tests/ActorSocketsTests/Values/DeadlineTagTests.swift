import Testing

@testable import ActorSockets

@Suite struct DeadlineTagTests {
  @Test(arguments: [0, 1, 2, 3, 4, 5, 1 << 32, (1 << 62) - 1] as [UInt64])
  func `A deadline's purpose comes back from its number, with the operation's`(id: UInt64) {
    guard case .read(id) = DeadlineTag(rawValue: DeadlineTag.read(id).rawValue) else { Issue.record("no read"); return }
    guard case .write(id) = DeadlineTag(rawValue: DeadlineTag.write(id).rawValue) else {
      Issue.record("no write"); return
    }
    guard case .close = DeadlineTag(rawValue: DeadlineTag.close.rawValue) else { Issue.record("no close"); return }
    #expect(DeadlineTag.read(id).rawValue != DeadlineTag.write(id).rawValue)
    #expect(DeadlineTag.read(id).rawValue != DeadlineTag.close.rawValue)
    #expect(DeadlineTag.write(id).rawValue != DeadlineTag.close.rawValue)
  }
}
