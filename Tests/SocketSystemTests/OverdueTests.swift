import Foundation
import TestSupport
import Testing

/// What a test says whose call does not return in time.
@Suite(.tags(.foundation)) struct OverdueTests {
  /// Set in the process that the first test starts.
  private static let isOverdue = ProcessInfo.processInfo.environment["ACTORSOCKETS_OVERDUE"] != nil

  @Test(.needs(.env))
  func `A call that is cancelled because it is overdue has one issue, with its sentence`() async throws {
    let tests = try await Program(
      .env,
      [
        "ACTORSOCKETS_OVERDUE=yes", ownProgram.path, "--testing-library", "swift-testing", "--filter",
        "OverdueTests/.*waits",
      ])
    let status = try await tests.exitStatus()
    let printed = await tests.output.whole + tests.errors.whole
    #expect(status != 0)
    #expect(printed.components(separatedBy: "recorded an issue").count == 2, "\(printed)")
    #expect(printed.contains("after 0 seconds still not: it returns"), "\(printed)")
  }

  @Test func `It waits until it is cancelled, in a process of its own`() async throws {
    guard Self.isOverdue else { return }
    let (elements, continuation) = AsyncStream.makeStream(of: Never.self)
    defer { continuation.finish() }
    try await within("it returns", seconds: 0) { for await _ in elements {} }
  }
}
