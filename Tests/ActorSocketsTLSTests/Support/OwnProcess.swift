import Foundation
import Glibc

/// Runs the body of a test that has a process of its own.
///
/// The testing library reports only how the process ends. So an error is printed, and the process ends with a status that tells
/// it from a trap.
///
/// A process that succeeds ends without the address sanitizer's look for leaks, by _exit(2). Its objects may still live. If one had a
/// weak reference before, only its header refers to the side table of that, in a form that the sanitizer does not know as a pointer, and
/// the table would be reported. To leave such tables out of all reports would hide objects that are lost together with them.
nonisolated(nonsending) func inOwnProcess(_ body: nonisolated(nonsending) () async throws -> Void) async {
  do {
    try await body()
  } catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(EXIT_FAILURE)
  }
  fflush(nil)
  _exit(EXIT_SUCCESS)
}
