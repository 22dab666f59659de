import Foundation

/// How many times longer than usual everything may take, for slow machines: `ACTORSOCKETS_PATIENCE`.
package let patience = ProcessInfo.processInfo.environment["ACTORSOCKETS_PATIENCE"].flatMap { Int($0) } ?? 1

/// A wait that was in vain.
package struct Overdue: Error, CustomStringConvertible {
  package let description: String

  package init(description: String) { self.description = description }
}

/// Runs `body`, and fails with a sentence if it does not return in time. `what` completes the sentence: what should have happened.
///
/// When the time is over, the body's task is cancelled. A body that does not react would hang forever, so the process then ends with the
/// same sentence.
@discardableResult
package func within<Value: Sendable>(
  _ what: String, seconds: Int = 60, file: String = #fileID, line: Int = #line,
  _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  let limit = seconds * patience
  let sentence = "\(file):\(line): after \(limit) seconds still not: \(what)"
  let work = Task { try await body() }
  let watchdog = Task {
    try await Task.sleep(for: .seconds(limit))
    work.cancel()
    try await Task.sleep(for: .seconds(15))
    FileHandle.standardError.write(Data("\n\(sentence), nor after being cancelled: the process ends here\n".utf8))
    exit(70)
  }
  let start = ContinuousClock.now
  defer { watchdog.cancel() }
  do {
    return try await work.value
  } catch {
    if ContinuousClock.now - start >= .seconds(limit) { throw Overdue(description: "\(sentence) (\(error))") }
    throw error
  }
}
