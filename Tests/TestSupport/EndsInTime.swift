package import Testing

/// Runs each test as `within` runs a body: a test that does not end in time fails with a sentence, and is cancelled.
package struct EndsInTime: TestTrait, SuiteTrait, TestScoping {
  package var isRecursive: Bool { true }

  package func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    let place = test.sourceLocation
    try await within("\(test.name) ends", file: place.fileID, line: place.line) { try await function() }
  }
}

extension Trait where Self == EndsInTime {
  /// Each test ends in time: in a minute, and on a slow machine later.
  package static var endsInTime: Self { EndsInTime() }
}
