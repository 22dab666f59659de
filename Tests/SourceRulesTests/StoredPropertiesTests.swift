import Testing

/// A type with many stored properties is two types.
@Suite struct StoredPropertiesTests {
  private static let most = 15

  /// The types that have more, and how many. The list may only become shorter.
  private static let exemptions = [
    // Plain values with one property for each setting or fact.
    "Configuration": 25, "TLSConfiguration": 24, "TCPInfo": 16,
  ]

  @Test func `Stored properties are told from other declarations`() {
    let file = SourceFile(
      path: "Sources/A/A.swift",
      text: """
        public final class A: B {
          let a: Int
          private(set) package var b, c: Int
          static let d = 1
          var e: Int { 1 }
          #if DEBUG
            @safe @exclusivity(unchecked)
            var f: [Int]
          #endif
          weak let g: A?
          func h() {
            var i = 1
          }
          struct J {
            let k, l: Int
          }
          nonisolated let m = Locked(0, with: { 1 })
          lazy var n = 1
          var o: Int {
            get { 1 }
          }
        }
        """)
    #expect(file.storedProperties.map { "\($0.type) \($0.count)" } == ["A 7", "J 2"])
  }

  @Test func `No type has more than fifteen stored properties, apart from those in the list`() {
    var found: [String: Int] = [:]
    for file in SourceFile.sources {
      for properties in file.storedProperties where properties.count > Self.most {
        found[properties.type] = max(properties.count, found[properties.type] ?? 0)
      }
    }
    #expect(found == Self.exemptions)
  }
}
