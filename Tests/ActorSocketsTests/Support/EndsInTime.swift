import TestSupport
import Testing

/// Each run of a test ends in time, as a call `within` a number of seconds does. The limit of a test replaces that of its suite.
struct EndsInTime: SuiteTrait, TestTrait, TestScoping {
  let seconds: Int
  var isRecursive: Bool { true }
  @TaskLocal private static var isCounting = false

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    // The trait of the suite and that of the test itself would each watch it. The test's own comes last.
    guard testCase != nil, !Self.isCounting else { return try await function() }
    let seconds = test.traits.compactMap { ($0 as? Self)?.seconds }.last ?? seconds
    let place = test.sourceLocation
    try await within("the end of the test", seconds: seconds, file: place.fileID, line: place.line) {
      try await Self.$isCounting.withValue(true) { try await function() }
    }
  }
}

extension Trait where Self == EndsInTime {
  static var endsInTime: Self { EndsInTime(seconds: 60) }
  static func endsInTime(seconds: Int) -> Self { EndsInTime(seconds: seconds) }
}
