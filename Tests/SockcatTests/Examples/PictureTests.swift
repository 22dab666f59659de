import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The picture of the election that fails, in a browser.
@Suite(.tags(.simulation, .crashes, .foundation)) struct PictureTests {
  /// What the page says about itself: `selfTest` of page.js.
  private struct Report: Decodable {
    let width: Int
    let lanes: Int
    let items: Int
    let arrows: Int
    let lost: Int
    let overflow: Int
    let failureVisible: Bool
    let disorder: Int
    let found: String
    let only: Int
    let lanesWithoutLast: Int
    let zooms: Bool
    let detail: String
    let title: String
  }

  private static let word = "votes for"

  /// Shows the page at two widths, in one start of the browser.
  private static func reports(of path: String, in folder: Folder) async throws -> [Report] {
    let address = "\(path)#selftest=\(word.replacing(" ", with: "%20"))"
    let page = """
      <!doctype html><title>two widths</title>
      <iframe src="file://\(address)" width="1400" height="900"></iframe>
      <iframe src="file://\(address)" width="700" height="900"></iframe>
      <script>onmessage = (e) => { const p = document.createElement("pre"); p.textContent = e.data; document.body.append(p); };</script>
      """
    try Data(page.utf8).write(to: folder.file("widths.html"))
    let browser = try await Program(
      .chromium,
      [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=3000",
        "--user-data-dir=\(folder.file("profile").path)", "--dump-dom", folder.file("widths.html").absoluteString,
      ])
    try await browser.exitStatus()
    let text = await browser.output.text
    return try text.matches(of: /<pre>(.*?)<\/pre>/.dotMatchesNewlines()).map { match in
      var json = String(match.1)
      for (entity, character) in [("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")] {
        json = json.replacing(entity, with: character)
      }
      return try JSONDecoder().decode(Report.self, from: Data(json.utf8))
    }
  }

  @Test(.needs(.chromium)) func `A browser shows a run with very many hosts`() async throws {
    let folder = try Folder()
    var record = RunRecord()
    for host in 1...1_100 { record.add(RunEvent(time: 0, host: 0, content: .host("n\(host)"))) }
    for host in [1, 1_050, 1_100] {
      record.add(RunEvent(time: 1, host: host, content: .note("works")))
      record.add(RunEvent(time: 1, host: 0, content: .state(of: host, .paused, change: "a pause")))
    }
    record.add(RunEvent(time: 2, host: 1_090, content: .failure("fails")))
    let picture = RunPicture(record: record, seed: 1, name: "Very many hosts", reason: "fails")
    let reports = try await Self.reports(of: try picture.write(to: folder.url.path), in: folder)
    #expect(reports.count == 2 && reports.allSatisfy { $0.items == 7 })
  }

  @Test(.needs(.chromium)) func `A browser shows the run, at two widths`() async throws {
    let folder = try Folder()
    var settings = Simulation.pictures
    settings.name = "A term has one leader at most"
    settings.folder = folder.url.path
    let failure = try await Simulation.$pictures.withValue(settings) {
      try #require(
        await #expect(throws: SimulationFailure.self) {
          try await Simulation.explore(seeds: 0..<1_000) { try await elect(in: $0, storesVote: false) }
        })
    }
    let path = try #require(failure.picture)
    let reports = try await Self.reports(of: path, in: folder)
    #expect(reports.map(\.width).sorted() == [700, 1_400])
    let notes = failure.story.count { $0.contains(Self.word) }
    for report in reports {
      #expect(report.lanes == 4 && report.lanesWithoutLast == 3)
      #expect(report.arrows > 50 && report.lost > 3 && report.items > report.arrows / 2)
      #expect(report.overflow <= 0, "the page is \(report.overflow) pixels too wide")
      #expect(report.failureVisible && report.disorder == 0 && report.zooms)
      #expect(report.found == "\(report.only) found" && report.only >= notes)
      #expect(report.detail.contains("As text") && report.detail.contains("UDP"))
      #expect(report.title.contains("Seed \(failure.seed) fails: ") && report.title.contains("both lead term"))
    }
  }
}
