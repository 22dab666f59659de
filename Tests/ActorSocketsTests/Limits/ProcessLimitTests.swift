import TestSupport
import Testing

/// Limits of things that a process has only once: its signals and its standard error. So they are tried in a process of their own.
@Suite struct ProcessLimitTests {
  @Test func `Exactly the limit is accepted, and one more is not`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are tried") {
        let page = try LimitsPage.ofRepository()
        for boundary in LimitBoundaries.ofProcess {
          let fault = try await boundary.fault(on: page)
          #expect(fault == nil, "\(boundary.testDescription)")
        }
      }
    }
  }
}
