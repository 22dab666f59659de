/// What happened in a run, in lines of text: notes, faults and what waited, without packets. It ends at the first failure.
struct RunStory {
  static let longest = 60
  private static let longestLine = 200
  private static let mostWaiting = 12

  private let record: RunRecord

  init(_ record: RunRecord) { self.record = record }

  var lines: [String] {
    let width = record.hosts.map(\.count).max().map { min($0, 16) } ?? 0
    var all: [String] = []
    for element in record.others {
      guard let text = text(of: element.event) else { continue }
      all.append(line(element.event, text, width))
      if case .failure = element.event.content { break }
    }
    let waiting = waitingLines
    let room = Self.longest - waiting.count - 1
    let left = max(0, all.count - room) + record.droppedLines
    if left > 0 { all = ["… \(left) earlier lines"] + all.suffix(room) }
    return all + waiting
  }

  /// The operations that waited when the run failed.
  private var waitingLines: [String] {
    let waiting = record.waiting
    if waiting.isEmpty { return [] }
    var lines = ["these waited then:"] + waiting.prefix(Self.mostWaiting).map { "  " + shown($0) }
    if waiting.count > Self.mostWaiting { lines.append("  … and \(waiting.count - Self.mostWaiting) more") }
    return lines
  }

  /// `nil` for an event that is not part of the story.
  private func text(of event: RunEvent) -> String? {
    switch event.content {
    case .note(let text), .change(let text): text
    case .state(_, _, let text): text
    case .failure(let text):
      "FAILS: " + String(decoding: text.utf8.prefix { $0 != LineSplitter.lineFeed }, as: UTF8.self)
    case .host, .link, .packet, .waiting, .clock, .end: nil
    }
  }

  private func line(_ event: RunEvent, _ text: String, _ width: Int) -> String {
    let name = shown(record.name(of: event.host))
    let padding = String(repeating: " ", count: max(0, width - name.count))
    return "\(Self.seconds(event.time))  \(name)\(padding)  \(shown(text))"
  }

  /// On one line, without control characters.
  private func shown(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator, .format: line += scalar.escaped(asASCII: true)
      default: line.unicodeScalars.append(scalar)
      }
    }
    return RunEvent.cut(line, to: Self.longestLine)
  }

  /// With six decimals, and aligned below a thousand seconds.
  private static func seconds(_ nanoseconds: Int64) -> String {
    let text = SimulationTrace.seconds(nanoseconds).dropLast(5)
    return String(repeating: " ", count: max(0, 10 - text.count)) + text + " s"
  }
}
