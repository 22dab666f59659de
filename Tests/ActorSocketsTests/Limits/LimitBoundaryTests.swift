import TestSupport
import Testing

/// The limits of the page hold: exactly the limit is accepted, and one more is not; a time-out comes at its time and not before.
/// ActorSocketsTLSTests tries the rows about TLS.
@Suite(.tags(.singleThread)) struct LimitBoundaryTests {
  @Test(arguments: LimitBoundaries.all)
  func `Exactly the limit is accepted, and one more is not`(boundary: LimitBoundary) async throws {
    try await within("both are tried", seconds: 180) {
      let fault = try await boundary.fault(on: LimitsPage.ofRepository())
      #expect(fault == nil)
    }
  }

  @Test func `Exactly the limit of a process is accepted, and one more is not`() async {
    // A process has its signals and its standard error only once, so they are tried in a process of their own.
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

  @Test func `Every number of the page is tried, or a list says why it is not`() throws {
    let page = try LimitsPage.ofRepository()
    let boundaries = LimitBoundaries.all + LimitBoundaries.ofProcess
    for gap in page.gaps(inSections: { $0 != "TLS" }, boundaries, LimitBoundaries.untried) {
      Issue.record(Comment(rawValue: gap))
    }
    #expect(LimitBoundaries.untried.allSatisfy { $0.reason.hasSuffix(".") })
  }

  // MARK: The comparison finds what it is there to find

  private static let page = LimitsPage(
    text: """
      ### Reading
      | what | default | where |
      |---|---|---|
      | bytes of a line | 64; 5 | here |
      | time | 5 s | there |
      ### TLS
      | keys | 3 | there |
      """)

  private static func gaps(_ boundaries: [LimitBoundary], _ untried: [UntriedLimit]) -> Int {
    page.gaps(inSections: { $0 == "Reading" }, boundaries, untried).count
  }

  @Test func `A value that is neither tried nor listed, or both, and an entry without a row are found`() {
    let line = LimitBoundary.most("bytes of a line") { $0 <= 64 }
    let least = LimitBoundary.most("bytes of a line", position: 1) { $0 <= 5 }
    let time = UntriedLimit("time", "It is long.")
    #expect(Self.gaps([line, least], [time]) == 0)
    #expect(Self.gaps([line], [time, UntriedLimit("bytes of a line", position: 1, "It is short.")]) == 0)
    #expect(Self.gaps([line], [time]) == 1)
    #expect(Self.gaps([line, least], []) == 1)
    #expect(Self.gaps([line, least], [time, UntriedLimit("bytes of a line", position: 1, "It is short.")]) == 1)
    #expect(Self.gaps([line, least], [time, UntriedLimit("keys", "It is of another section.")]) == 1)
    #expect(Self.gaps([line, least, .most("time", position: 1) { _ in true }], [time]) == 1)
  }

  @Test func `A limit that is another number than that of the page is found`() async throws {
    for limit in 62...66 {
      let boundaries: [LimitBoundary] = [
        .most("bytes of a line") { $0 <= limit }, .least("bytes of a line") { $0 >= limit },
        .end("bytes of a line") { $0 < limit },
      ]
      for boundary in boundaries {
        let fault = try await boundary.fault(on: Self.page)
        #expect((fault == nil) == (limit == 64))
      }
    }
    let right: [LimitBoundary] = [.time("time") { .seconds(5) }, .most("time") { $0 <= 5_000_000_000 }]
    for boundary in right { #expect(try await boundary.fault(on: Self.page) == nil) }
    let wrong: [LimitBoundary] = [
      .time("time") { Duration.seconds(5) + .nanoseconds(1) }, .time("keys") { .zero }, .most("bytes") { _ in true },
      .most("keys", position: 1) { _ in true },
    ]
    for boundary in wrong { #expect(try await boundary.fault(on: Self.page) != nil) }
  }
}
