import TestSupport
import Testing

@Suite(.tags(.pure)) struct SourceRuleTests {
  @Test func `Comments and strings are no code`() {
    let file = SourceFile(
      path: "A.swift",
      text: #"""
        let a = "try! // \" as!" // fatalError()
        /* try!
        try! */ let b = 1
        """#)
    #expect(file.lines.map(\.code) == [#"let a = "" "#, "", " let b = 1"])
    #expect(file.lines.map(\.comment) == ["/ fatalError()", "* try!", "try! */"])
  }

  @Test(arguments: [
    ("try! read()", ["try!"]), ("retry!", []), ("x as! Int", ["as!"]), ("class!", []), ("fatalError()", ["fatalError"]),
    ("fatalErrors()", []), ("try await Task.sleep(for: .zero)", ["sleep("]), ("usleep(1)", []), ("sleepy(1)", []),
    ("_ = poll(nil, 0, 1)", ["poll(nil"]), ("@Test(.enabled(if: true))", [".enabled("]),
  ])
  func `A word is found only as a whole word`(line: String, found: [String]) {
    let file = SourceFile(path: "A.swift", text: line)
    #expect(["try!", "as!", "fatalError", "sleep(", "poll(nil", ".enabled("].filter(file.lines[0].has) == found)
  }

  @Test(arguments: [(0, [1, 3]), (1, [1, 3]), (2, []), (3, [1])])
  func `Words must be as many as the list says`(allowed: Int, lines: [Int]) {
    let file = SourceFile(path: "A.swift", text: "try! a()\nb()\ntry! c()\n")
    let list = [Allowance(path: "A.swift", words: "try!", count: allowed, reason: "a test")]
    #expect(SourceRule.words(["try!"], allowed: list, because: "traps").violations(file).map(\.line) == lines)
  }

  @Test func `A promise is explained within three lines`() {
    let promise = "final class A: @unchecked Sendable {"
    #expect(lines(.promisesAreExplained, promise) == [1])
    #expect(lines(.promisesAreExplained, promise, "  // SAFETY: under a lock.") == [])
    #expect(lines(.promisesAreExplained, "// SAFETY: under a lock.", "", "", "", promise) == [5])
    #expect(lines(.promisesAreExplained, "nonisolated(unsafe) var a = 1") == [1])
  }

  @Test func `An unsafe expression is explained in its own function`() {
    let explained = [
      "  func a(", "    b: Int", "  ) {", "    // SAFETY: it lives.", "    if c {", "      unsafe d()", "    }", "  }",
    ]
    let bare = ["  func e() {", "    let f = unsafe g()", "  }"]
    #expect(lines(.unsafeExpressionsAreExplained, explained) == [])
    #expect(lines(.unsafeExpressionsAreExplained, ["struct S {"] + explained + bare + ["}"]) == [11])
    #expect(lines(.unsafeExpressionsAreExplained, ["struct S {"] + bare + explained + ["}"]) == [3])
    #expect(lines(.unsafeExpressionsAreExplained, "// SAFETY: as long as a.", "func b() { unsafe c() }") == [])
    #expect(
      lines(.unsafeExpressionsAreExplained, "// SAFETY: of a alone.", "func a() {}", "func b() { unsafe c() }") == [3])
  }

  @Test func `A promise about a property covers its uses, and nothing else`() {
    let promise = ["  // SAFETY: one thread only.", "  nonisolated(unsafe) var a: Int?", "", "", ""]
    let uses = [
      "  func b() {", "    if unsafe a == nil { unsafe self.a = 1 } else { unsafe !a }", "    unsafe c(unsafe a)",
      "    unsafe ab()",
      "  }",
    ]
    #expect(lines(.unsafeExpressionsAreExplained, promise + uses) == [8, 9])
  }

  @Test func `Only expressions count as unsafe code`() {
    #expect(lines(.noUnsafeExpressions, "let a = unsafe b", "f(unsafe (c))", "return try unsafe d()") == [1, 2, 3])
    #expect(lines(.noUnsafeExpressions, "nonisolated(unsafe) var a = 1", "@unsafe func b()", "let unsafely = 1") == [])
  }

  @Test func `A public operation of an actor on a reactor without a claim is found`() {
    let rule = SourceRule.publicOperationsClaimTheirPlace(of: ["A"], delegating: ["func d("])
    #expect(lines(rule, "extension A {", "  public func a() { b() }", "}") == [2])
    #expect(lines(rule, "extension A {", "  public func a() { b(claimPlaceNow()) }", "}") == [])
    #expect(lines(rule, "extension A {", "  @available(*, unavailable)", "  public func a() {}", "}") == [])
    #expect(
      lines(rule, "public actor A: B {", "  public func a(", "    b: Int", "  ) async {", "    c()", "  }", "}") == [2])
    let claims = [
      "  public func a(", "    b: Int", "  ) async {", "    if b { c() }", "    _ = await claimPlace()", "  }",
    ]
    #expect(lines(rule, ["extension A {"] + claims + ["}"]) == [])
    #expect(lines(rule, ["extension B {", "  public func a() { b() }", "}"]) == [])
    #expect(lines(rule, ["extension A {", "  public var c: Int {", "    d", "  }"] + claims + ["}"]) == [2])
    #expect(
      lines(rule, ["extension A {", "  public func d() { c() }", "  public nonisolated var e: Int { 1 }", "}"]) == [])
    #expect(lines(rule, ["extension A {", "  struct F {", "    public func g() { b() }", "  }", "}"]) == [])
  }

  @Test(
    arguments: [
      ("public actor A: ReactorActor {", "A"), ("actor A<B: Sendable>: ReactorActor {", "A"),
      ("actor A: C, EventHandler {", "A"), ("actor A {", nil), ("extension A: EventHandler {", nil),
    ] as [(String, String?)])
  func `An actor on a reactor is known by what it conforms to`(line: String, actor: String?) {
    #expect(SourceFile(path: "A.swift", text: line).lines[0].declaredReactorActor == actor)
  }

  @Test(arguments: [
    (#"if word == "UNKNOWN" {"#, 1), (#"case "TCP4", "TCP6":"#, 1), (#"path.hasPrefix(root + "/")"#, 1),
    (#"topic.split(separator: "/")"#, 1), (#"line.uppercased().hasPrefix("* OK")"#, 2), (#"name.lowercased()"#, 1),
    (#"text.firstIndex(of: "=")"#, 1), (#"var topics: [String: Int] = [:]"#, 1),
    (#"word.elementsEqual("UNKNOWN".utf8)"#, 0), (#"path.starts(with: root)"#, 0), (#"text.equals("GET")"#, 0),
    (#"text.utf8.split(separator: UInt8(ascii: "/"))"#, 0), (#"parts.joined(separator: "/")"#, 0),
    (#"name.lowercased.begins(with: "a")"#, 0), (#"// path.hasPrefix("/")"#, 0),
  ])
  func `Texts that are compared as characters are found`(line: String, count: Int) {
    #expect(lines(.textsAreBytes, line).count == count)
  }

  @Test func `A file is too long by its last line`() {
    #expect(lines(.length(atMost: 2), "a", "b") == [])
    #expect(lines(.length(atMost: 2), "a", "b", "c") == [3])
  }

  @Test func `A function is too long from its first line on, and requirements have no length`() {
    let short = ["func a() {", "  b()", "}"]
    let long = ["func a(", "  b: Int", ") {", "  c()", "}"]
    let requirements = [
      "protocol A {", "  func a()", "  func b()", "  func c()", "}", "extension A {", "  func d() {", "  }", "}",
    ]
    #expect(lines(.functionLength(atMost: 3), short.joined(separator: "\n")) == [])
    #expect(lines(.functionLength(atMost: 2), short.joined(separator: "\n")) == [1])
    #expect(lines(.functionLength(atMost: 4), (short + long).joined(separator: "\n")) == [4])
    #expect(lines(.functionLength(atMost: 2), requirements.joined(separator: "\n")) == [])
    #expect(lines(.functionLength(atMost: 2), "deinit { a() }", "b", "c") == [])
  }

  private func lines(_ rule: SourceRule, _ lines: String...) -> [Int] { self.lines(rule, lines) }

  private func lines(_ rule: SourceRule, _ lines: [String]) -> [Int] {
    rule.violations(SourceFile(path: "A.swift", text: lines.joined(separator: "\n") + "\n")).map(\.line)
  }

  @Test func `Words do no harm in a function whose code has a mark, and only there`() {
    let file = SourceFile(
      path: "Tests/A.swift",
      text: """
        @Test(.simulated)
        func a() {
          sleep(1)
        }
        func b() {
          // .simulated
          sleep(1)
        }
        """)
    let rule = SourceRule.words(["sleep("], exceptWith: [".simulated"], because: "hopes")
    #expect(rule.violations(file).map(\.line) == [7])
  }
}
