import Foundation
import TestSupport
import Testing

/// The backtraces of Swift's runtime, which another program prints. A sanitizer's runtime cannot be stopped for that: under the thread
/// sanitizer, both it and the runtime fail their own checks.
@Suite(.tags(.backtraces)) struct BacktraceTests {
  @Test(arguments: HandlerPlace.allCases)
  func `A trap in a handler prints its backtrace`(place: HandlerPlace) async throws {
    // The process that is started inherits it. To look the names up would take long.
    let settings = "enable=yes,color=no,symbolicate=off,threads=crashed,images=none,registers=none,top=4,timeout=0s"
    // SAFETY: the texts are valid for the calls.
    unsafe setenv("SWIFT_BACKTRACE", settings, 1)
    defer { unsafe unsetenv("SWIFT_BACKTRACE") }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [place] in
      try await place.serve { fatalError("a trap") }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("a trap") && text.contains(/crashed:\n\n *0 +0x[0-9a-f]+\n/), "\(text)")
  }
}
