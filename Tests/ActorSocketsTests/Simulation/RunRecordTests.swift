import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The record of a run, and the lines in which a copy of the process sends it.
@Suite(.tags(.pure)) struct RunRecordTests {
  private static let awkward = "a\tb\\n\nc\r\n\u{0}\u{7f}</script>\"'é🙂"

  private static let contents: [RunEvent.Content] = [
    .host("n1"), .host(""), .note(awkward), .note(""), .change(awkward), .failure(awkward), .waiting([]),
    .waiting([awkward, "", "b"]), .clock, .end(hash: .max), .state(of: 3, .withoutPower, change: awkward),
    .link(LinkView(from: 1, to: 2, text: awkward, isCut: true)), .packet(packet(count: 0)),
    .packet(packet(count: 256)),
    .packet(
      PacketView(
        from: 1, to: 2, kind: 6, sourcePort: 65_535, destinationPort: 1, flags: 7, sequence: 1 << 40, acknowledged: 0,
        isRepeated: true, count: 1_000, bytes: [0, 9, 10, 92, 255], arrivals: [5, .max], loss: nil)),
    .packet(PacketView(from: 1, to: 2, kind: 1, count: 113, loss: .rejected)),
  ]

  private static func packet(count: Int) -> PacketView {
    PacketView(from: 1, to: 2, kind: 17, count: count, bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0) })
  }

  @Test(arguments: contents) func `A line has all of an event, and no line feed`(content: RunEvent.Content) {
    let event = RunEvent(time: -1, host: 2, content: content)
    #expect(!event.line.contains(10))
    #expect(RunEvent(line: event.line[...]) == event)
    #expect(event.json(.max).count < event.jsonSize)
  }

  @Test(arguments: ["", "1", "1\t2", "1\t2\tp\t1", "x\t2\tn\ttext", "1\t2\t?\ttext", "1\t2\ts\t1\tsomething\ttext"])
  func `Another line is no event`(line: String) { #expect(RunEvent(line: Array(line.utf8)[...]) == nil) }

  @Test func `Lines come in pieces of any size`() {
    let texts = (0..<20).map { "line \($0)" }
    let bytes = texts.flatMap { Array("\($0)\n".utf8) }
    for size in 1...bytes.count {
      var splitter = LineSplitter()
      var lines: [String] = []
      for start in stride(from: 0, to: bytes.count, by: size) {
        splitter.add(Array(bytes[start..<min(start + size, bytes.count)])) {
          lines.append(String(decoding: $0, as: UTF8.self))
        }
      }
      splitter.add(Array("cut off".utf8)) { lines.append(String(decoding: $0, as: UTF8.self)) }
      #expect(lines == texts)
    }
  }

  @Test func `The oldest packets go first, and no note goes with them`() {
    var record = RunRecord(RunRecord.Limits(packets: 2_000, others: 1_000, count: 1_000))
    record.add(RunEvent(time: 0, host: 0, content: .host("n1")))
    record.add(RunEvent(time: 0, host: 1, content: .note("the first")))
    for time in 1...500 {
      record.add(RunEvent(time: Int64(time), host: 1, content: .packet(Self.packet(count: 20))))
    }
    let size = record.packets.reduce(0) { $0 + $1.json.count + 1 }
    #expect(size <= 2_000 && size > 300)
    #expect(record.packets.allSatisfy { $0.json.count < $0.size })
    #expect(record.droppedPackets == 500 - record.packets.count && record.droppedPackets > 400)
    #expect(record.packets.map(\.event.time).last == 500)
    #expect(record.packets.map(\.event.time) == record.packets.map(\.event.time).sorted())
    #expect(record.others.count == 1 && record.droppedOthers == 0)
    #expect(record.hosts == ["main", "n1"] && record.end == 500)
  }

  @Test func `Later events displace nothing of the first failure, and are counted when they do not fit`() {
    var record = RunRecord(RunRecord.Limits(packets: 20_000, others: 2_000, links: 2_000, count: 100))
    for time in 1...20 {
      record.add(RunEvent(time: Int64(time), host: 0, content: .note("\(time)")))
      record.add(RunEvent(time: Int64(time), host: 0, content: .packet(Self.packet(count: 20))))
    }
    record.add(RunEvent(time: 21, host: 0, content: .failure("the first")))
    record.add(RunEvent(time: 21, host: 0, content: .waiting(["read"])))
    let (others, packets) = (record.others.map(\.event), record.packets.map(\.event))
    for time in 22...1_000 {
      record.add(RunEvent(time: Int64(time), host: 0, content: .failure("another")))
      record.add(RunEvent(time: Int64(time), host: 0, content: .waiting(["write"])))
      record.add(RunEvent(time: Int64(time), host: 0, content: .packet(Self.packet(count: 20))))
    }
    #expect(others.count == 22 && record.others.map(\.event).starts(with: others))
    #expect(packets.count == 20 && record.packets.map(\.event).starts(with: packets))
    #expect((23...32).contains(record.others.count) && (21...30).contains(record.packets.count))
    #expect(record.others.map(\.event.time).max() ?? 0 < 40)
    #expect(record.droppedPackets == 0 && record.droppedOthers == 0)
    #expect(record.droppedLater == 3 * 979 + 42 - record.others.count - record.packets.count)
    #expect(record.waiting == ["read"] && record.failure == others[20])
  }

  @Test func `Links displace no notes, and stay in their order`() {
    var record = RunRecord(RunRecord.Limits(packets: 1_000, others: 1_000, links: 1_000, count: 100))
    for time in 1...1_000 {
      if time == 5 || time == 995 { record.add(RunEvent(time: Int64(time), host: 0, content: .note("a"))) }
      let link = LinkView(from: 1, to: 2, text: "slow", isCut: false)
      record.add(RunEvent(time: Int64(time), host: 0, content: .link(link)))
    }
    let times = record.others.map(\.event.time)
    #expect(times.first == 5 && times.contains(995) && times.last == 1_000 && times == times.sorted())
    #expect(record.droppedLines == 0 && record.droppedOthers > 900)
  }

  @Test(arguments: contents) func `Each text of an event is cut`(content: RunEvent.Content) {
    #expect(content.cut == content)
    let long = String(repeating: "x", count: 100_000)
    for content in [
      RunEvent.Content.note(long), .change(long), .failure(long), .state(of: 1, .paused, change: long),
      .link(LinkView(from: 1, to: 2, text: long, isCut: true)),
    ] {
      #expect(RunEvent(time: 0, host: 0, content: content.cut).line.count < 5_000)
    }
  }

  @Test func `There are not too many small events, and the oldest notes go first`() {
    var record = RunRecord(RunRecord.Limits(packets: 1_000, others: .max, count: 10))
    for time in 1...2_500 { record.add(RunEvent(time: Int64(time), host: 0, content: .note("\(time)"))) }
    #expect(record.others.map(\.event.time) == Array(2_491...2_500))
    #expect(record.droppedOthers == 2_490)
  }

  @Test func `A record knows its first failure, what waited then, and its end`() {
    var record = RunRecord()
    record.add(RunEvent(time: 5, host: 1, content: .failure("one")))
    record.add(RunEvent(time: 5, host: 1, content: .waiting(["read"])))
    record.add(RunEvent(time: 6, host: 2, content: .failure("two")))
    record.add(RunEvent(time: 6, host: 2, content: .waiting(["write"])))
    #expect(record.failure?.content == .failure("one"))
    #expect(record.waiting == ["read"] && record.lastHost == 2 && record.hash == nil)
    record.add(RunEvent(time: 7, host: 0, content: .end(hash: 9)))
    #expect(record.hash == 9 && record.end == 7)
    let count = record.others.count
    record.add(RunEvent(time: 8, host: 1, content: .clock))
    #expect(record.end == 8 && record.lastHost == 1 && record.others.count == count)
  }

  @Test(arguments: [
    ("abc", 3, "abc"), ("abcd", 3, "abc… (4 bytes)"), ("aé", 2, "a… (3 bytes)"), ("🙂", 3, "… (4 bytes)"),
  ])
  func `A long text is cut between characters, and says how long it was`(text: String, most: Int, cut: String) {
    #expect(RunEvent.cut(text, to: most) == cut)
  }
}
