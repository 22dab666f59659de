/// The report of a process as people read it. It neither reads nor prints.
struct InspectionTable {
  enum Key: String, CaseIterable {
    case number, kind, state, age, `in`, out, since, peer, label
  }

  /// A socket or a pool, as a row.
  struct Row {
    let value: JSONValue
    let number: Double?
    /// The operation that waits for the longest time.
    let oldest: JSONValue?
    let cells: [String]

    init(_ value: JSONValue) {
      self.value = value
      number = value["id"].number
      oldest = (value["operations"].elements + [value["connecting"]]).filter { $0["what"].text != nil }
        .max { $0["age"].number ?? 0 < $1["age"].number ?? 0 }
      let addresses = value["addresses"].elements.compactMap(\.text).joined(separator: " ")
      cells = [
        number.map(InspectionTable.whole) ?? "-", Self.kind(of: value), Self.state(of: value),
        InspectionTable.time(value["age"].number), InspectionTable.bytes(value["received"].number),
        InspectionTable.bytes(value["sent"].number), oldest.map(Self.what) ?? "-",
        InspectionTable.time(oldest?["age"].number), InspectionTable.time(oldest?["left"].number),
        value["remote"].text ?? (addresses.isEmpty ? value["local"].text ?? "-" : addresses), value["label"].text ?? "",
      ].map { InspectionTable.printable(InspectionTable.short($0)) }
    }

    private static func what(_ operation: JSONValue) -> String {
      let done = operation["done"].number ?? 0
      return (operation["what"].text ?? "-") + (done > 0 ? ", \(InspectionTable.whole(done)) done" : "")
    }

    private static func kind(of value: JSONValue) -> String {
      let kind = value["kind"].text ?? ""
      return switch value["type"].text ?? "" {
      case "listener": "\(kind) listener"
      case "pool": "pool"
      case "endpoint": kind.contains("udp") ? kind : "\(kind) datagrams"
      default: kind
      }
    }

    private static func state(of value: JSONValue) -> String {
      let members =
        switch value["type"].text ?? "" {
        case "listener": ["handlers", "waiting"]
        case "pool": ["inUse", "idle", "waiting"]
        default: [String]()
        }
      let numbers = members.compactMap { name in value[name].number.map { "\(name) \(InspectionTable.whole($0))" } }
      return ([value["state"].text].compactMap { $0 } + numbers).joined(separator: ", ")
    }

    func comes(before other: Row, by key: Key) -> Bool {
      // The largest numbers are the interesting ones, and come first.
      func descending(_ value: (Row) -> Double?) -> Bool { value(self) ?? -1 > value(other) ?? -1 }
      switch key {
      case .number: return number ?? .infinity < other.number ?? .infinity
      case .age: return descending { $0.value["age"].number }
      case .in: return descending { $0.value["received"].number }
      case .out: return descending { $0.value["sent"].number }
      case .since: return descending { $0.oldest?["age"].number }
      case .kind: return cells[1] < other.cells[1]
      case .state: return cells[2] < other.cells[2]
      case .peer: return cells[9] < other.cells[9]
      case .label: return cells[10] < other.cells[10]
      }
    }
  }

  private static let titles = [
    "NUMBER", "KIND", "STATE", "AGE", "IN", "OUT", "WAITS FOR", "SINCE", "LEFT", "PEER", "LABEL",
  ]
  private static let types: Set = ["connection", "endpoint", "listener", "pool"]

  private var lines: [JSONValue]
  private let rows: [Row]

  init(_ lines: [JSONValue]) {
    self.lines = lines
    rows = lines.filter { Self.types.contains($0["type"].text ?? "") }.map { Row($0) }
  }

  func text(sortedBy key: Key = .since, filter: String? = nil) -> String {
    let shown = rows.enumerated().filter { row in
      filter.map { filter in row.element.cells.contains { $0.lowercased().contains(filter.lowercased()) } } ?? true
    }
    // Equal ones keep their order.
    let sorted = shown.sorted { left, right in
      if left.element.comes(before: right.element, by: key) { return true }
      if right.element.comes(before: left.element, by: key) { return false }
      return left.offset < right.offset
    }
    let cells = [Self.titles] + sorted.map(\.element.cells)
    let widths = Self.titles.indices.map { column in cells.map { $0[column].count }.max() ?? 0 }
    let table = cells.map { row in
      let padded = zip(row, widths).map { cell, width in cell + String(repeating: " ", count: width - cell.count) }
      return Self.withoutSpaceAtEnd(padded.joined(separator: "  "))
    }
    return (heads + table).joined(separator: "\n") + "\n"
  }

  /// Everything about one connection or endpoint; `nil` if no row has this number.
  func detail(of number: Int) -> String? {
    guard let row = rows.first(where: { $0.number == Double(number) }), case .object(let members) = row.value else {
      return nil
    }
    return members.sorted { $0.key < $1.key }.flatMap { name, value in Self.lines(Self.short(name), value, indent: "") }
      .joined(separator: "\n") + "\n"
  }

  /// The lines about the process and the reactors.
  private var heads: [String] {
    lines.compactMap { line in
      let number = line["reactor"].number.map(Self.whole) ?? "?"
      switch line["type"].text ?? "" {
      case "process": return line["pid"].number.map { "process \(Self.whole($0))" }
      case "reactor":
        return
          "reactor \(number)\(line["shared"] == .bool(true) ? ", shared" : ""): lag \(Self.time(line["lag"].number)), "
          + "longest job \(Self.time(line["longestJob"].number)), \(Self.whole(line["queued"].number ?? 0)) jobs queued"
      case "silent":
        return "reactor \(number) DOES NOT ANSWER: its current job has run for \(Self.time(line["running"].number)); "
          + "its sockets are missing below"
      default: return nil
      }
    }
  }

  private static func lines(_ name: String, _ value: JSONValue, indent: String) -> [String] {
    switch value {
    case .object(let members):
      ["\(indent)\(printable(name)):"]
        + members.sorted { $0.key < $1.key }.flatMap { lines(short($0.key), $0.value, indent: indent + "  ") }
    case .array(let elements):
      elements.isEmpty
        ? ["\(indent)\(printable(name)): -"]
        : elements.enumerated().flatMap { lines("\(name) \($0.offset + 1)", $0.element, indent: indent) }
    case .string(let text): ["\(indent)\(printable(name)): \(printable(short(text)))"]
    case .number(let number):
      ["\(indent)\(printable(name)): \(times.contains(name) ? time(number) : whole(number))"]
    case .bool(let value): ["\(indent)\(printable(name)): \(value)"]
    case .null: ["\(indent)\(printable(name)): -"]
    }
  }

  private static let times: Set = ["age", "left", "rtt"]

  /// Without a fraction. A number may be anything: the program that answered chose it.
  static func whole(_ number: Double) -> String { Int(exactly: number.rounded(.towardZero)).map { "\($0)" } ?? "-" }

  /// Seconds, in the unit that people would use.
  static func time(_ seconds: Double?) -> String {
    guard let seconds, (0..<1e12).contains(seconds) else { return "-" }
    switch seconds {
    case ..<0.001: return "\(Int(seconds * 1e6)) µs"
    case ..<1: return "\(Int(seconds * 1e3)) ms"
    case ..<60: return "\(Int(seconds)).\(Int(seconds * 10) % 10) s"
    case ..<3600: return "\(Int(seconds) / 60) min \(Int(seconds) % 60) s"
    default: return "\(Int(seconds) / 3600) h \(Int(seconds) / 60 % 60) min"
    }
  }

  static func bytes(_ count: Double?) -> String {
    guard let count, (0..<1e18).contains(count) else { return "-" }
    switch count {
    case ..<10_000: return "\(Int(count))"
    case ..<10_240_000: return "\(Int(count / 1024)) KiB"
    case ..<10_485_760_000: return "\(Int(count / 1_048_576)) MiB"
    default: return "\(Int(count / 1_073_741_824)) GiB"
    }
  }

  /// All rows are as wide as the longest cell, so a long one would multiply the text.
  private static func short(_ text: String) -> String {
    text.utf8.count <= 200 ? text : String(text.unicodeScalars.prefix(200)) + "…"
  }

  /// Labels, names and addresses may be chosen by others. A terminal would obey control characters in them, and characters that change the
  /// direction of text could hide others.
  static func printable(_ text: String) -> String {
    escaped(text) { "\\u{\(String($0.value, radix: 16))}" }
  }

  /// A line of JSON that means the same, and that a terminal can show.
  static func printable(json line: String) -> String {
    escaped(line) { scalar in
      String(scalar).utf16.map { unit in
        let digits = String(unit, radix: 16)
        return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      }.joined()
    }
  }

  private static func escaped(_ text: String, _ escape: (Unicode.Scalar) -> String) -> String {
    var clean = ""
    for scalar in text.unicodeScalars {
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned:
        clean += escape(scalar)
      default: clean.unicodeScalars.append(scalar)
      }
    }
    return clean
  }

  private static func withoutSpaceAtEnd(_ text: String) -> String {
    String(text.reversed().drop { $0 == " " }.reversed())
  }
}
