import Foundation
import Glibc

/// Runs the body of a test that has a process of its own.
///
/// The testing library reports only how the process ends. So an error is printed, and the process ends with a status that tells
/// it from a trap.
nonisolated(nonsending) func inOwnProcess(_ body: nonisolated(nonsending) () async throws -> Void) async {
  do {
    try await body()
  } catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(EXIT_FAILURE)
  }
}
