import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The picture of a run: its JSON, and the file around that.
@Suite(.tags(.pure)) struct RunPictureTests {
  private static let awkward = "</script><b>&amp;\"'\\\u{0}\u{7f}\u{2028}\n\té🙂"

  private static func picture(
    _ contents: [RunEvent.Content], _ limits: RunRecord.Limits = .init(), name: String = "a test"
  )
    -> RunPicture
  {
    var record = RunRecord(limits)
    for (index, content) in contents.enumerated() {
      record.add(RunEvent(time: Int64(index), host: 1, content: content))
    }
    return RunPicture(record: record, seed: .max, name: name, reason: awkward)
  }

  private static func object(_ picture: RunPicture) throws -> [String: Any] {
    try #require(JSONSerialization.jsonObject(with: Data(picture.json)) as? [String: Any])
  }

  private static func rows(_ key: String, _ picture: RunPicture) throws -> [[Any]] {
    try #require(object(picture)[key] as? [[Any]])
  }

  @Test func `Each kind of event is a row with its number, its time and its host`() throws {
    let picture = Self.picture([
      .host("n1"), .note("a"), .change("b"), .state(of: 1, .paused, change: "c"),
      .link(LinkView(from: 1, to: 0, text: "slow", isCut: false)), .failure("d"), .waiting(["e", "f"]), .end(hash: 1),
    ])
    let rows = try Self.rows("events", picture).map { row in row.map { "\($0)" } }
    #expect(
      rows.map { $0.prefix(5).joined(separator: " ") } == [
        "1 1 1 note a", "2 2 1 change b", "3 3 1 state c", "4 4 1 link slow", "5 5 1 failure d",
        "6 6 1 waiting \(rows[5][4])", "7 7 1 end",
      ])
    #expect(rows[2].suffix(2) == ["1", "paused"] && rows[3].suffix(3) == ["1", "0", "0"])
    #expect(try Self.rows("events", picture)[5][4] as? [String] == ["e", "f"])
    #expect(try Self.object(picture)["hosts"] as? [String] == ["main", "n1"])
    #expect(try Self.object(picture)["seed"] as? String == "\(UInt64.max)")
  }

  @Test func `A packet has its ends, its arrivals, why it is lost, and its bytes as characters`() throws {
    let bytes = (0...255).map { UInt8($0) }
    let arrives = PacketView(
      from: 1, to: 2, kind: 6, sourcePort: 3, destinationPort: 4, flags: 1, sequence: 5, acknowledged: nil,
      isRepeated: true, count: 900, bytes: bytes, arrivals: [7, 8])
    let lost = PacketView(from: 2, to: 1, kind: 17, count: 0, loss: .chance)
    let rows = try Self.rows("packets", Self.picture([.packet(arrives), .packet(lost)]))
    #expect(rows[0][4..<14].map { "\($0)" } == ["1", "2", "6", "3", "4", "1", "5", "-1", "1", "900"])
    #expect(rows[0][14] as? [Int] == [7, 8] && rows[0][15] as? String == "")
    let text = try #require(rows[0][16] as? String)
    #expect(text.unicodeScalars.map { $0.value } == bytes.map { UInt32($0) })
    #expect(rows[1][14] as? [Int] == [] && rows[1][15] as? String == "chance")
  }

  @Test func `No text of the program ends the script, and each comes back unchanged`() throws {
    let picture = Self.picture(
      [.host(Self.awkward), .note(Self.awkward), .waiting([Self.awkward])], name: Self.awkward)
    #expect(!picture.json.contains(UInt8(ascii: "<")) && !picture.json.contains { $0 < 32 })
    let object = try Self.object(picture)
    #expect(object["name"] as? String == Self.awkward && object["reason"] as? String == Self.awkward)
    #expect((object["hosts"] as? [String])?.last == Self.awkward)
    #expect(try Self.rows("events", picture)[0][4] as? String == Self.awkward)
    let html = String(decoding: picture.html, as: UTF8.self)
    #expect(html.components(separatedBy: "</script>").count == 3)
    #expect(html.contains("<title>seed \(UInt64.max): &lt;/script&gt;&lt;b&gt;&amp;amp;\"'"))
  }

  @Test func `The file needs nothing else, and loads nothing`() {
    let html = String(decoding: Self.picture([]).html, as: UTF8.self)
    for word in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import("] {
      #expect(!html.contains(word), "\(word)")
    }
  }

  @Test func `The largest file is below eight megabytes`() {
    var record = RunRecord()
    let noise = (0..<256).map { UInt8(truncatingIfNeeded: $0 * 7) }
    for time in 0..<12_000 {
      let packet = PacketView(from: 1, to: 2, kind: 17, count: 256, bytes: noise, arrivals: [Int64(time)])
      record.add(RunEvent(time: Int64(time), host: 1, content: .packet(packet)))
      record.add(RunEvent(time: Int64(time), host: 1, content: .note(String(repeating: "<", count: 100))))
    }
    let picture = RunPicture(record: record, seed: 0, name: "", reason: String(repeating: "\u{0}", count: 1_000_000))
    #expect(picture.html.count < 8_000_000 && picture.html.count > 5_000_000)
    let text = String(decoding: picture.json.prefix(200_000), as: UTF8.self)
    #expect(text.contains("\"droppedPackets\":\(record.droppedPackets),\"droppedOthers\":\(record.droppedOthers)"))
  }

  @Test(
    arguments: [
      ("A client gets its answer", "A-client-gets-its-answer-seed-7.html"), ("../../etc/x", "etc-x-seed-7.html"),
      ("", "seed-7.html"), ("ä`f()", "f-HASH-seed-7.html"),
      (String(repeating: "a", count: 300), String(repeating: "a", count: 100) + "-HASH-seed-7.html"),
    ])
  func `A file is named after the test and the seed`(name: String, file: String) {
    let found = RunPicture(record: RunRecord(), seed: 7, name: name, reason: "").fileName
    #expect(found.replacing(/-[0-9a-f]{1,8}-seed/, with: "-HASH-seed") == file)
  }

  @Test func `Files of names that differ in other characters or at the end have other names`() {
    let long = String(repeating: "a", count: 120)
    let names = ["ä", "ö", "é", "e\u{301}", long, long + "b"]
    let files = names.map { RunPicture(record: RunRecord(), seed: 7, name: $0, reason: "").fileName }
    #expect(Set(files).count == names.count, "\(files)")
  }

  @Test func `A long name is cut`() throws {
    let name = try #require(Self.object(Self.picture([], name: String(repeating: "a", count: 1 << 20)))["name"])
    #expect("\(name)".utf8.count < 5_000)
  }

  @Test func `A picture of the same process is not replaced, and no link is followed`() throws {
    let folder = try Folder()
    try Data("precious".utf8).write(to: folder.file("precious"))
    let names = ["", "-2", "-3"].map { "simulation-seed-\(UInt64.max)\($0).html" }
    for name in names.prefix(2) {
      try FileManager.default.createSymbolicLink(
        at: folder.file(name), withDestinationURL: folder.file("precious"))
    }
    for number in 0..<3 {
      let path = try Self.picture([.note("number \(number)")], name: "simulation").write(to: folder.url.path)
      #expect(path == folder.file(names[number]).path)
    }
    for number in 0..<3 {
      #expect(try String(contentsOf: folder.file(names[number]), encoding: .utf8).contains("number \(number)"))
    }
    #expect(try String(contentsOf: folder.file("precious"), encoding: .utf8) == "precious")
  }
}
