/// What did not happen, or not in time.
public struct Overdue: Error, CustomStringConvertible {
  /// What should have happened.
  public let description: String

  /// Creates the error.
  ///
  /// - Parameter description: A sentence.
  public init(_ description: String) { self.description = description }
}

/// Runs a body, and fails with a sentence if it has not returned in time.
///
/// - Parameters:
///   - what: The end of the sentence: what should have happened.
///   - seconds: The time.
///   - body: What should return. It is cancelled when the time is over.
/// - Returns: Its result.
/// - Throws: ``Overdue``, or what the body throws.
@discardableResult
public func within<Value: Sendable>(
  _ what: String, seconds: Int = 60, _ body: @escaping @concurrent @Sendable () async throws -> Value
) async throws -> Value {
  try await withThrowingTaskGroup(of: Value?.self) { group in
    defer { group.cancelAll() }
    group.addTask { try await body() }
    group.addTask {
      try await Task.sleep(for: .seconds(seconds))
      return nil
    }
    guard let value = try await group.next() ?? nil else {
      throw Overdue("after \(seconds) seconds still not: \(what)")
    }
    return value
  }
}
