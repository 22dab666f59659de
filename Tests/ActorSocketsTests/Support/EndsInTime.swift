import TestSupport
import Testing

/// Gives each test of a suite a deadline, as `within` does.
struct EndsInTime: SuiteTrait, TestTrait, TestScoping {
  let seconds: Int
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    // A test's own trait comes after that of its suite.
    let seconds = test.traits.compactMap { ($0 as? Self)?.seconds }.last ?? seconds
    let place = test.sourceLocation
    try await within("the end of the test", seconds: seconds, file: place.fileID, line: place.line) {
      try await function()
    }
  }
}

extension Trait where Self == EndsInTime {
  /// Each test has a minute.
  static var endsInTime: Self { Self(seconds: 60) }

  static func ends(within seconds: Int) -> Self { Self(seconds: seconds) }
}
