import TestSupport
import Testing

/// The pages for maintainers name only what exists. So they cannot describe code that has changed or gone without a failed test.
@Suite(.tags(.pure)) struct DocumentedNamesTests {
  private static let names = SourceNames(SourceFile.sources + SourceFile.tests)

  /// For each page, the quoted texts that are no names of the sources.
  private static let pages: [(path: String, allowed: Set<String>)] = [
    ("Docs/Architecture.md", ["epoll_ctl", "recvmmsg", "sendmmsg"]),
    (
      "Docs/Toolchain.md",
      [
        "-Xswiftc -DACTORSOCKETS_PLAIN", "SetAlgebra", "eventfd", "inout sending", "isolated deinit",
        "make check", "make nightly", "make release-client", "try await endpoint.receive().bytes.span",
      ]
    ),
    ("Docs/Porting.md", ["fflags"]),
    ("Docs/ActorSockets.docc/Limits.md", ["epoll_wait", "somaxconn"]),
    (
      migration("CocoaAsyncSocket"),
      [
        "GCDAsyncSocketSSLCertificates", "GCDAsyncSocketSSLIsServer", "GCDAsyncSocketSSLPeerName", "IPv4Enabled",
        "[::]", "beginReceiving", "dispatch_sync", "enableReusePort", "import ActorSocketsTLS", "isIPv4Enabled",
        "readData(toLength:withTimeout:tag:)", "readDataToLength:withTimeout:tag:", "socket4FD", "socketFD",
        "some ByteStream",
      ]
    ),
    (migration("SwiftNIO"), ["ByteToMessageHandler", "NIOAsyncChannel", "allowRemoteHalfClosure"]),
    (migration("NetworkFramework"), ["NWBrowser", "NWPathMonitor", "try TLSContext()"]),
    (migration("BSDSockets"), ["MSG_ZEROCOPY"]),
  ]

  private static func migration(_ name: String) -> String { "Docs/ActorSockets.docc/MigratingFrom\(name).md" }

  @Test(arguments: pages.indices)
  func `A page names only what exists`(index: Int) throws {
    let (path, allowed) = Self.pages[index]
    let text = try #require(SourceFile.text(of: path))
    let isForeign = path.contains("MigratingFrom")
    let page = DocumentationPage(path: path, text: isForeign ? MigrationPage.withoutForeignNames(text) : text)
    #expect(page.quotations.count > (isForeign ? 5 : 10))
    for violation in page.unknownNames(Self.names, allowed: allowed, exists: SourceFile.exists) {
      violation.record(in: path)
    }
  }

  @Test func `A maintainer reads the architecture in one sitting`() throws {
    let page = try #require(DocumentationPage(ofRepository: "Docs/Architecture.md"))
    #expect(page.lineCount <= 220)
  }
}

@Suite(.tags(.pure)) struct DocumentationPageTests {
  private let names = SourceNames([
    SourceFile(path: "Sources/A/Car.swift", text: "struct Car { func drive(to place: Int) {} } // Boat"),
    SourceFile(path: "Sources/B/Wheel.swift", text: "struct Wheel { let spokes = 1; let text = \"Boat\" }"),
    SourceFile(path: "Sources/A/Same.swift", text: ""), SourceFile(path: "Sources/B/Same.swift", text: ""),
  ])

  @Test func `Quotations are texts in single backticks outside of blocks of code`() {
    let page = DocumentationPage(path: "A.md", text: "`a` and ``B/c``, `d(_:)`\n```\n`e`\n```\nan open ` here\n`f`\n")
    #expect(page.lineCount == 6)
    #expect(page.quotations.map(\.text) == ["a", "d(_:)", "f"])
    #expect(page.quotations.map(\.line) == [1, 1, 6])
  }

  @Test(
    arguments: [
      "Car", "drive", "drive(to:)", "drive(_:)", "Car.drive", "Car.drive(to:)", ".spokes", "@Car", "Car<Wheel>",
      "Car.swift", "A/Car.swift", "Sources/A/Same.swift", "Docs/Page.md",
    ])
  func `Names that the sources have are found`(text: String) {
    #expect(violations("`\(text)`").isEmpty)
  }

  @Test(
    arguments: [
      "Boat", "Ca", "drive(by:)", "Car.spokes", "Wheel.drive(to:)", "Car.Boat", "Car<Boat>", "Boat.swift", "Same.swift",
      "B/Car.swift", "Docs/Gone.md", "epoll_wait", "make check", "-D", "…",
    ])
  func `Names that the sources do not have are reported`(text: String) {
    #expect(violations("first\n`\(text)`").map(\.line) == [2])
    #expect(violations("first\n`\(text)`", allowed: [text]).isEmpty)
  }

  @Test func `Only what a page needs is allowed`() {
    #expect(violations("`Car`", allowed: ["Car"]).map(\.line) == [1])
    #expect(violations("epoll_wait", allowed: ["epoll_wait"]).map(\.line) == [1])
  }

  private func violations(_ text: String, allowed: Set<String> = []) -> [SourceRule.Violation] {
    DocumentationPage(path: "A.md", text: text)
      .unknownNames(names, allowed: allowed) { $0 == "Sources/A/Same.swift" || $0 == "Docs/Page.md" }
  }
}
