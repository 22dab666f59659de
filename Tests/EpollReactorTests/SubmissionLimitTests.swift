import TestSupport
import Testing

@testable import EpollReactor

@Suite struct SubmissionLimitTests {
  /// A limit in a copyable form, which `#expect` needs.
  private final class Counter: Sendable {
    private let limit = SubmissionLimit()

    init(_ value: Int? = nil, endsSocket: Bool = false) { if let value { set(value, endsSocket: endsSocket) } }
    init(like other: Counter) { limit.set(like: other.limit) }

    func set(_ value: Int, endsSocket: Bool = false) { limit.set(value, endsSocket: endsSocket) }
    func submit(_ count: Int) -> Bool { limit.submit(count) }
    func reached(_ count: Int) { limit.reached(count) }
    func claimEnd() -> Bool { limit.claimEnd() }
    var waiting: Int { limit.waiting }
    var value: Int { limit.value }
    var endsSocket: Bool { limit.endsSocket }
  }

  @Test func `A first call may have any size, and further ones what the limit leaves`() {
    let limit = Counter(1_000)
    #expect(limit.submit(5_000))
    #expect(!limit.submit(1))
    limit.reached(5_000)
    #expect(limit.submit(400) && !limit.submit(601) && limit.submit(600) && !limit.submit(0))
    #expect(limit.waiting == 1_000)
    limit.reached(400)
    #expect(limit.submit(400))
  }

  @Test func `A small call counts as much as the memory that it takes`() {
    let limit = Counter(10 * SubmissionLimit.leastCharge)
    #expect((0..<100).count { limit.submit($0 % 2) } == 10)
    for _ in 0..<10 { limit.reached(1) }
    #expect(limit.waiting == 0)
  }

  @Test(arguments: [Int.min, -1, 0, 1, 255, 256, .max])
  func `Any number may be a limit`(value: Int) {
    let limit = Counter(value)
    #expect(limit.submit(1_000))
    #expect(limit.submit(1_000) == (value == .max))
  }

  @Test func `Only the first call beyond a limit ends the socket, if that is wanted`() {
    let limit = Counter()
    #expect(!limit.endsSocket && !limit.claimEnd())
    limit.set(1, endsSocket: true)
    #expect(limit.endsSocket && limit.claimEnd() && !limit.claimEnd() && limit.endsSocket)
    limit.set(1, endsSocket: true)
    #expect(!limit.claimEnd())
    let layer = Counter(like: limit)
    #expect(layer.value == 1 && layer.claimEnd())
  }

  @Test func `Threads that submit at the same time never exceed the limit together`() async throws {
    try await within("the threads end") {
      let limit = Counter(1 << 20)
      let submitted = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<4 {
          group.addTask { try await onThread { (0..<10_000).count { _ in limit.submit(1_000) } } }
        }
        return try await group.reduce(0, +)
      }
      #expect(submitted == (1 << 20) / 1_000 && limit.waiting == submitted * 1_000)
    }
  }
}
