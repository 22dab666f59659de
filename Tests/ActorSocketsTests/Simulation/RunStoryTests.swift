import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The story of a run, in lines of text.
@Suite(.tags(.pure)) struct RunStoryTests {
  private static func record(_ events: [(Int64, Int, RunEvent.Content)], hosts: [String] = ["n1", "longer"])
    -> RunRecord
  {
    var record = RunRecord()
    for host in hosts { record.add(RunEvent(time: 0, host: 0, content: .host(host))) }
    for (time, host, content) in events { record.add(RunEvent(time: time, host: host, content: content)) }
    return record
  }

  @Test func `It has notes and faults with their hosts, and no packets`() {
    let record = Self.record([
      (0, 0, .change("links are slow")), (1_500_000, 1, .note("asks")),
      (2_000_000, 1, .packet(PacketView(from: 1, to: 2, kind: 17, count: 0))),
      (3_000_000_000, 0, .state(of: 2, .killed, change: "longer crashes")),
      (3_000_000_000, 0, .link(LinkView(from: 1, to: 2, text: "a cut", isCut: true))),
      (12_000_000_000, 2, .note("ends")),
    ])
    #expect(
      RunStory(record).lines == [
        "  0.000000 s  main    links are slow", "  0.001500 s  n1      asks", "  3.000000 s  main    longer crashes",
        " 12.000000 s  longer  ends",
      ])
  }

  @Test func `It ends at the first failure, with what waited then`() {
    let record = Self.record([
      (1, 1, .note("before")), (2, 1, .failure("two leaders\nwith details")),
      (2, 1, .waiting(["n1: read", "n1: accept"])),
      (3, 1, .note("after")), (3, 1, .failure("another")),
    ])
    #expect(
      RunStory(record).lines == [
        "  0.000000 s  n1      before", "  0.000000 s  n1      FAILS: two leaders", "these waited then:", "  n1: read",
        "  n1: accept",
      ])
  }

  @Test func `A long story says how many lines are missing`() {
    var record = Self.record((1...200).map { (Int64($0), 1, .note("note \($0)")) })
    record.add(RunEvent(time: 201, host: 1, content: .failure("x")))
    record.add(RunEvent(time: 201, host: 1, content: .waiting((1...40).map { "wait \($0)" })))
    let lines = RunStory(record).lines
    #expect(lines.count == RunStory.longest)
    #expect(lines[0] == "… 156 earlier lines")
    #expect(lines[1].hasSuffix("note 157") && lines[45].hasSuffix("FAILS: x"))
    #expect(lines.last == "  … and 28 more")
  }

  @Test func `A story whose beginning was dropped says so, also if it is short`() {
    var record = RunRecord(RunRecord.Limits(count: 10))
    for time in 1...14 {
      record.add(RunEvent(time: Int64(time), host: 0, content: .note("\(time)")))
      let link = LinkView(from: 1, to: 2, text: "", isCut: false)
      for _ in 0..<10 { record.add(RunEvent(time: Int64(time), host: 0, content: .link(link))) }
    }
    let lines = RunStory(record).lines
    #expect(lines.count == 11 && lines[0] == "… 4 earlier lines" && lines[1].hasSuffix("main  5"))
  }

  @Test func `The name of a host has no control characters`() {
    let record = Self.record([(1, 1, .note("a"))], hosts: ["x\u{1b}[31m\ny"])
    #expect(RunStory(record).lines[0].hasSuffix("x\\u{1B}[31m\\ny  a"))
  }

  @Test func `A line has no control characters, and is not too long`() {
    let record = Self.record([
      (1, 1, .note("a\nb\u{1b}[31m\u{202e}é")), (1, 1, .note(String(repeating: "x", count: 5_000))),
    ])
    let lines = RunStory(record).lines
    #expect(lines[0].hasSuffix("a\\nb\\u{1B}[31m\\u{202E}é"))
    #expect(lines[1].utf8.count < 300)
  }

  @Test func `Without events it has no lines`() { #expect(RunStory(Self.record([])).lines == []) }
}
