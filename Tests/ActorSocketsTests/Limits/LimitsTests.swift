import TestSupport
import Testing

/// The page with the limits has the values of the code. The rows about TLS are compared in ActorSocketsTLSTests.
@Suite struct LimitsTests {
  /// The rows of which a boundary tries each value, which finds a value that is not that of the code.
  private static let tried = Set((LimitBoundaries.all + LimitBoundaries.ofProcess).map(\.what))
    .subtracting(LimitBoundaries.untried.map(\.what))

  @Test func `Every limit on the page is that of the code`() throws {
    let page = try LimitsPage.ofRepository()
    #expect(page.rows.count > 90)
    let unchecked = Dictionary(uniqueKeysWithValues: Self.tried.map { ($0, "LimitBoundaryTests") })
    for difference in page.differences(inSections: { $0 != "TLS" }, LimitChecks.all, unchecked: unchecked) {
      Issue.record(Comment(rawValue: difference))
    }
  }

  // MARK: The comparison finds what it is there to find

  @Test(
    arguments: [
      ("65,536", [65_536]), ("1 GiB, at least 4,096", [1_073_741_824, 4_096]), ("1,024; 256 KiB", [1_024, 262_144]),
      ("30 s", [.seconds(30)]), ("250 ms, at least 10 ms", [.nanoseconds(250_000_000), .nanoseconds(10_000_000)]),
      ("0.25 ms; 100 µs", [.nanoseconds(250_000), .nanoseconds(100_000)]),
      ("5 min; 12 h", [.seconds(300), .seconds(43_200)]),
      ("on", ["on"]), ("no limit", ["no limit"]), ("1.2 to 1.3", ["1.2", "1.3"]), ("16 KiB and a record", [16_384]),
      ("UTF8 or IPv4", ["UTF8 or IPv4"]), ("5 handlers", [5]),
    ] as [(String, [Limit])])
  func `Values are the numbers and times of a text, or the text`(text: String, values: [Limit]) {
    #expect(LimitsPage.values(in: text) == values)
  }

  private static let page = LimitsPage(
    text: """
      ### Reading
      | what | default | where |
      |---|---|---|
      | bytes of a line | 64 KiB | here |
      | time | 5 s | there |
      ### TLS
      | keys | 3 | there |
      """)

  @Test func `The rows of the sections that are meant are compared`() {
    #expect(Self.page.rows.map(\.what) == ["bytes of a line", "time", "keys"])
    let checks = [LimitCheck("bytes of a line") { [65_536] }, LimitCheck("time") { [.seconds(5)] }]
    #expect(Self.page.differences(inSections: { $0 == "Reading" }, checks).isEmpty)
    #expect(Self.page.differences(inSections: { _ in true }, checks).count == 1)
    #expect(Self.page.differences(inSections: { _ in true }, checks, unchecked: ["keys": "a reason"]).isEmpty)
  }

  @Test(
    arguments: [
      [LimitCheck("bytes of a line") { [65_537] }, LimitCheck("time") { [.seconds(5)] }],
      [LimitCheck("bytes of a line") { [65_536] }, LimitCheck("time") { [5] }],
      [LimitCheck("bytes of a line") { [65_536] }],
      [LimitCheck("bytes of a line") { [] }, LimitCheck("time") { [.seconds(5)] }],
      [
        LimitCheck("bytes of a line") { [65_536] }, LimitCheck("time") { [.seconds(5)] }, LimitCheck("keys") { [3] },
      ],
      [LimitCheck("bytes of a line") { [65_536] }, LimitCheck("time") { throw CancellationError() }],
    ])
  func `Another value, a row without a check and a check without a row are found out`(checks: [LimitCheck]) {
    #expect(Self.page.differences(inSections: { $0 == "Reading" }, checks).count == 1)
  }

  @Test func `Numbers in the sources are found if all places have the same`() throws {
    #expect(try SourceText.number(#"var writeBudget = (.+)"#, in: "ActorSockets/TCP/TCPConnection.swift") == 1 << 20)
    #expect(throws: SourceText.Problem.self) {
      try SourceText.number("no such thing (.+)", in: "ActorSockets/TCP/TCPConnection.swift")
    }
    #expect(throws: SourceText.Problem.self) { try SourceText.number("var (label)", in: "ActorSockets/TCP") }
    #expect(throws: SourceText.Problem.self) { try SourceText.number(#"seconds\((\d+)\)"#, in: "ActorSockets/TCP") }
  }
}
