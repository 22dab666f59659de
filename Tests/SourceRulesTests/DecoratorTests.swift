import Testing

/// A transport that decorates another one has to pass on every call. The compiler does not say if one is missing that has a default.
@Suite struct DecoratorTests {
  @Test func `The transport of a capture passes on every requirement of StreamTransport`() throws {
    let streams = try #require(SourceFile.libraries.first { $0.path.hasSuffix("/StreamTransport.swift") })
    let decorator = try #require(SourceFile.libraries.first { $0.path.hasSuffix("/CapturingTransport.swift") })
    let body = streams.lines.drop { !$0.code.hasPrefix("package protocol StreamTransport") }.prefix { $0.code != "}" }
    let requirements = body.filter { $0.indentation == 2 }.map { Self.plain($0.code) }
      .filter { $0.hasPrefix("func ") || $0.hasPrefix("var ") }
    #expect(requirements.count > 15)
    let text = Self.plain(decorator.lines.map(\.code).joined(separator: " "))
    // The default of the one that sends a file calls one that is passed on.
    for requirement in requirements where !requirement.hasPrefix("func send(file") {
      #expect(text.contains(requirement), "\(requirement) is not passed on")
    }
  }

  @Test func `Several observers that act as one pass on every call`() throws {
    let protocols = try #require(SourceFile.libraries.first { $0.path.hasSuffix("/ReactorObserver.swift") })
    let decorator = try #require(SourceFile.examples.first { $0.path.hasSuffix("/Observers.swift") })
    let body = protocols.lines.drop { !$0.code.hasPrefix("public protocol ReactorObserver") }.prefix { $0.code != "}" }
    let requirements = body.filter { $0.indentation == 2 }.map { Self.plain($0.code) }.filter { $0.hasPrefix("func ") }
    #expect(requirements.count >= 10)
    let text = Self.plain(decorator.lines.map(\.code).joined(separator: " "))
    for requirement in requirements {
      #expect(text.contains("public \(requirement) {"), "\(requirement) is not passed on")
    }
  }

  /// A declaration without the spaces and lines of its layout.
  private static func plain(_ code: String) -> String {
    code.replacing(" { get }", with: "").split(separator: " ").joined(separator: " ")
      .replacing("( ", with: "(").replacing(" )", with: ")")
  }
}
