package import Testing

/// Runs each test as `within` runs a body: a test that does not end in time fails with a sentence, and is cancelled. The limit of a test
/// replaces that of its suite.
package struct EndsInTime: TestTrait, SuiteTrait, TestScoping {
  let seconds: Int
  package var isRecursive: Bool { true }
  @TaskLocal private static var isCounting = false

  package func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    // The trait of the suite and that of the test itself would each watch it. The test's own comes last.
    guard testCase != nil, !Self.isCounting else { return try await function() }
    let seconds = test.traits.compactMap { ($0 as? Self)?.seconds }.last ?? seconds
    let place = test.sourceLocation
    try await within("\(test.name) ends", seconds: seconds, file: place.fileID, line: place.line) {
      try await Self.$isCounting.withValue(true) { try await function() }
    }
  }
}

extension Trait where Self == EndsInTime {
  /// Each test ends in a minute, and on a slow machine later.
  package static var endsInTime: Self { EndsInTime(seconds: 60) }
  package static func endsInTime(seconds: Int) -> Self { EndsInTime(seconds: seconds) }
}
