import Testing

@testable import ActorSockets

@Suite struct StreamDeadlineTests {
  private enum Own: UInt64, CaseIterable { case first, second = 1_000_000 }

  private static let ids: [UInt64] = [0, 1, 2, 3, 4, 5, 1 << 32, (1 << 62) - 1]
  private static let streams: [StreamDeadline] =
    ids.flatMap { [.read($0), .write($0)] } + [.close, .tail, .idle, .acknowledgement, .grace]

  @Test func `A stream's deadline can be made from its number again, and no two have the same number`() {
    for deadline in Self.streams { #expect(StreamDeadline(rawValue: deadline.rawValue) == deadline) }
    #expect(Set(Self.streams.map(\.rawValue)).count == Self.streams.count)
  }

  @Test func `A connection's own deadlines have other numbers than those of its stream`() {
    let all =
      Self.streams.map { ConnectionDeadline<Own>.stream($0) } + Own.allCases.map { ConnectionDeadline<Own>.own($0) }
    for deadline in all { #expect(ConnectionDeadline<Own>(rawValue: deadline.rawValue) == deadline) }
    #expect(Set(all.map(\.rawValue)).count == all.count)
  }

  @Test func `An unknown number is no deadline`() {
    for number in [3, 7, 20, 24, .max - 3] as [UInt64] { #expect(StreamDeadline(rawValue: number) == nil) }
    for number in [7, 11, 20, .max] as [UInt64] { #expect(ConnectionDeadline<Own>(rawValue: number) == nil) }
    #expect(DatagramDeadline(rawValue: 8) == nil && DatagramDeadline(rawValue: 12) == nil)
  }

  @Test func `A datagram endpoint's deadline can be made from its number again`() {
    let all: [DatagramDeadline] = Self.ids.flatMap { [.receive($0), .send($0), .search($0)] } + [.close, .retry]
    for deadline in all { #expect(DatagramDeadline(rawValue: deadline.rawValue) == deadline) }
    #expect(Set(all.map(\.rawValue)).count == all.count)
  }
}
