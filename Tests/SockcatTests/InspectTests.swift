import ActorSockets
import Foundation
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct InspectTests {
  private static let lines = [
    #"{"type":"process","format":1,"pid":7,"time":1.5}"#,
    #"{"type":"reactor","reactor":1,"shared":true,"queued":2,"lag":0.0001,"longestJob":0.25}"#,
    #"{"type":"silent","reactor":2,"waited":1,"running":83}"#,
    #"{"type":"connection","reactor":1,"age":7300,"id":12,"kind":"tcp","label":"ev\u001bil","remote":"1.2.3.4:5","state":"open","received":20,"sent":123456,"operations":[{"what":"read a line","age":61.5,"left":2.25,"done":7,"total":null}]}"#,
    #"{"type":"connection","reactor":1,"age":2.5,"id":3,"kind":"tls","label":null,"remote":"[::1]:9","state":"closing","received":900,"sent":1,"operations":[]}"#,
    #"{"type":"pool","reactor":1,"age":1,"idle":2,"inUse":1,"waiting":0,"operations":[]}"#,
    #"{"type":"end","complete":false,"sockets":3}"#,
  ]

  private func table() throws -> InspectionTable {
    InspectionTable(try Self.lines.map { try #require(JSONValue(parsing: $0)) })
  }

  private func numbers(_ text: String) -> [String] {
    let rows = text.split(separator: "\n").drop { !$0.hasPrefix("NUMBER") }.dropFirst()
    return rows.map { String($0.prefix { $0 != " " }) }
  }

  @Test func `The table says who waits for what, since when`() throws {
    let text = try table().text()
    #expect(text.contains("process 7\n"))
    #expect(text.contains("reactor 1, shared: lag 100 µs, longest job 250 ms, 2 jobs queued"))
    #expect(text.contains("reactor 2 DOES NOT ANSWER: its current job has run for 1 min 23 s"))
    let row = try #require(text.split(separator: "\n").first { $0.hasPrefix("12") })
    #expect(
      row.split(separator: "  ").map { $0.trimmingPrefix(" ") } == [
        "12", "tcp", "open", "2 h 1 min", "20", "120 KiB", "read a line, 7 done", "1 min 1 s", "2.2 s", "1.2.3.4:5",
        "ev\\u{1b}il",
      ])
    #expect(text.contains("inUse 1, idle 2, waiting 0"))
  }

  @Test(arguments: [
    (InspectionTable.Key.since, ["12", "3", "-"]), (.number, ["3", "12", "-"]), (.age, ["12", "3", "-"]),
    (.in, ["3", "12", "-"]), (.out, ["12", "3", "-"]), (.kind, ["-", "12", "3"]), (.state, ["3", "-", "12"]),
  ])
  func `Each column can sort the rows`(key: InspectionTable.Key, order: [String]) throws {
    #expect(numbers(try table().text(sortedBy: key)) == order)
  }

  @Test func `A filter keeps the rows that have its text`() throws {
    #expect(numbers(try table().text(filter: "TLS")) == ["3"])
    #expect(numbers(try table().text(filter: "read a")) == ["12"])
    #expect(numbers(try table().text(filter: "nothing")) == [])
  }

  @Test func `One connection is shown in detail`() throws {
    let text = try #require(try table().detail(of: 12))
    #expect(text.contains("remote: 1.2.3.4:5\n") && text.contains("  what: read a line") && text.contains("\\u{1b}"))
    #expect(try table().detail(of: 4) == nil)
  }

  @Test func `A long text of a peer does not make all rows long`() throws {
    let long = String(repeating: "x", count: 100_000)
    let row = #"{"type":"pool","id":1,"label":"\#(long)","\#(long)":["a","b"]}"#
    let table = InspectionTable(try [row, row].map { try #require(JSONValue(parsing: $0)) })
    #expect(table.text().utf8.count < 2_000)
    #expect(try #require(table.detail(of: 1)).utf8.count < 2_000)
  }

  @Test func `Text of a peer cannot control the terminal`() {
    #expect(InspectionTable.printable("a\u{1b}[2J\u{202e}\u{9b}\nb é") == "a\\u{1b}[2J\\u{202e}\\u{9b}\\u{a}b é")
  }

  @Test(arguments: [
    "", "{", "\"a\u{1b}\"", "[1,\n2]", "{\"a\":}", "[1,]", "nul", "\"", "\"\\x\"", "{} {}", "01x",
    String(repeating: "[", count: 1000),
  ])
  func `Text that is no JSON is refused`(text: String) { #expect(JSONValue(parsing: text) == nil) }

  @Test func `Lines that are passed on keep their meaning, and do not control the terminal`() throws {
    let line = "{\"a\":\"é \u{9b}\u{202e}\u{e0001}\u{7f}\"}"
    let shown = InspectionTable.printable(json: line)
    #expect(shown == #"{"a":"é \u009b\u202e\udb40\udc01\u007f"}"#)
    let value = try JSONSerialization.jsonObject(with: Data(shown.utf8)) as? [String: String]
    #expect(value?["a"] == "é \u{9b}\u{202e}\u{e0001}\u{7f}")
  }

  @Test(arguments: ["1e999", "-1e999", "-5", "1e300", "-1e300", "1e18", "9223372036854775807", "0.1"])
  func `Any number can be shown`(number: String) throws {
    let names = [
      "pid", "reactor", "queued", "lag", "longestJob", "running", "id", "age", "received", "sent", "handlers",
    ]
    let members = names.map { "\"\($0)\":\(number)" }.joined(separator: ",")
    let operation = "\"operations\":[{\"what\":\"x\",\"age\":\(number),\"left\":\(number)}]"
    let lines = ["process", "reactor", "silent", "listener"].map { "{\"type\":\"\($0)\",\(members),\(operation)}" }
    let table = InspectionTable(try lines.map { try #require(JSONValue(parsing: $0)) })
    #expect(table.text().contains("NUMBER"))
    for id in [5, -5, Int.max] { _ = table.detail(of: id) }
  }

  @Test func `JSON is read`() {
    let value = JSONValue(parsing: #" {"a" : [1, -2.5e1, true, null, "x\"\\\u00e9\n"], "b":{}} "#)
    #expect(
      value
        == .object([
          "a": .array([.number(1), .number(-25), .bool(true), .null, .string("x\"\\é\n")]), "b": .object([:]),
        ]))
  }

  @Test func `The command line is read`() throws {
    var options = InspectOptions(endpoint: .unix(path: "/a"))
    #expect(try Command(parsing: ["inspect", "/a"]) == .inspect(options))
    options.sort = .age
    options.filter = "x"
    options.interval = .seconds(2)
    options.watches = true
    #expect(
      try Command(parsing: ["inspect", "--sort", "age", "--filter=x", "--interval", "2", "unix:/a"])
        == .inspect(options))
    for words in [["inspect"], ["inspect", "/a", "--sort", "x"], ["inspect", "/a", "--json", "--connection", "1"]] {
      #expect(throws: Failure.self) { try Command(parsing: words) }
    }
  }
}
