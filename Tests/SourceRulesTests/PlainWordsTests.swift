import TestSupport
import Testing

/// The words of the project are plain: no comment, name of a test or page has a phrase that always hides a better one.
@Suite(.tags(.pure)) struct PlainWordsTests {
  @Test(arguments: SourceFile.sources + SourceFile.tests + SourceFile.examples)
  func `Comments and names of tests are in plain words`(file: SourceFile) {
    for violation in file.prose.flatMap(\.unwanted) { violation.record(in: file.path) }
  }

  @Test(arguments: SourceFile.pages.indices)
  func `Pages are in plain words`(index: Int) {
    let (path, text) = SourceFile.pages[index]
    for violation in DocumentationPage.prose(of: text).flatMap(\.unwanted) { violation.record(in: path) }
  }

  @Test func `There are pages to check`() {
    #expect(SourceFile.pages.count > 15 && SourceFile.pages.contains { $0.path.hasSuffix("/WhatIsPromised.md") })
  }

  @Test(
    arguments: [
      "Cancelling stops the waiting alone.", "Reads of so\nmany bytes.", "This comes to three.", "It is no matter.",
      "All lines at a stroke.", "Likewise the other one.", "The peer goes\naway.", "Port 0 is nobody's.",
      "It is up to the caller whether it waits.", "None of them waits.", "If it used none, it is asked again.",
      "What runs now is another call.",
      "First the end. What the transport took is done.", "They do what one would think.", "Others have any time.",
      "It is not that call, or not any more.",
    ])
  func `An unwanted phrase is found`(text: String) {
    #expect(Paragraph(line: 1, text: text).unwanted.count == 1)
  }

  @Test(
    arguments: [
      "There are so many connections that accepting stops.", "What is left? Nothing.", "The limit is up to the system.",
      "Ask what waits.", "Up to 32 bytes.", "The default is `none`.",
    ])
  func `A plain phrase is allowed`(text: String) {
    #expect(Paragraph.all(in: [text]).flatMap(\.unwanted).isEmpty)
  }

  @Test func `The line of a phrase is that of its first word`() {
    let text = "let a = 1\n/// One.\n/// The peer goes\n/// away.\nfunc `Nobody waits`() {}\n"
    let file = SourceFile(path: "A.swift", text: text)
    #expect(file.prose.flatMap(\.unwanted).map(\.line) == [3, 5])
    let page = "# A page\n\nOne.\n\n```\nnobody\n```\n- Two\n  goes\n  away.\n"
    #expect(DocumentationPage.prose(of: page).flatMap(\.unwanted).map(\.line) == [9])
  }
}
