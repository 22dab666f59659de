import TestSupport
import Testing

/// The limits of TLS on the page hold: exactly the limit is accepted, and one more is not. The other rows are tried in ActorSocketsTests.
@Suite(.tags(.singleThread)) struct TLSLimitBoundaryTests {
  @Test(arguments: TLSLimitBoundaries.all)
  func `Exactly the limit is accepted, and one more is not`(boundary: LimitBoundary) async throws {
    try await within("both are tried", seconds: 180) {
      let fault = try await boundary.fault(on: LimitsPage.ofRepository())
      #expect(fault == nil)
    }
  }

  @Test func `Every number of TLS on the page is tried, or a list says why it is not`() throws {
    let page = try LimitsPage.ofRepository()
    for gap in page.gaps(inSections: { $0 == "TLS" }, TLSLimitBoundaries.all, TLSLimitBoundaries.untried) {
      Issue.record(Comment(rawValue: gap))
    }
    #expect(TLSLimitBoundaries.untried.allSatisfy { $0.reason.hasSuffix(".") })
  }
}
