import TestSupport
import Testing

/// Each run of a test ends in time, as a call `within` a number of seconds does. The limit of a test replaces that of its suite.
struct EndsInTime: SuiteTrait, TestTrait, TestScoping {
  let seconds: Int
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    // A test has the traits of its suite before its own.
    let limit = test.traits.lazy.compactMap { $0 as? Self }.last?.seconds
    guard testCase != nil, seconds == limit else { return try await function() }
    let place = test.sourceLocation
    try await within("the end of the test", seconds: seconds, file: place.fileID, line: place.line) {
      try await function()
    }
  }
}

extension Trait where Self == EndsInTime {
  static var endsInTime: Self { EndsInTime(seconds: 60) }
  static func endsInTime(seconds: Int) -> Self { EndsInTime(seconds: seconds) }
}
