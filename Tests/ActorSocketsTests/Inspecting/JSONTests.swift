import Foundation
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct JSONTests {
  @Test func `Values are written as RFC 8259 says`() {
    let value = JSON.object([
      ("a", .null), ("b", .bool(true)), ("c", .number(-3)), ("d", .array([.number(1), .string("x")])),
      ("e", .object([])), ("f", .array([])), ("g", JSON(UInt64.max)),
    ])
    #expect(value.text == #"{"a":null,"b":true,"c":-3,"d":[1,"x"],"e":{},"f":[],"g":9223372036854775807}"#)
  }

  @Test func `Times are in seconds, without digits that say nothing`() {
    let times: [Duration] = [
      .zero, .seconds(3), .milliseconds(1500), .nanoseconds(1), .nanoseconds(10), .seconds(-1),
      .nanoseconds(120_000_000),
    ]
    #expect(times.map { JSON.seconds($0).text } == ["0", "3", "1.5", "0.000000001", "0.00000001", "0", "0.12"])
  }

  @Test func `A string stays in its line, and no terminal obeys it`() {
    #expect(JSON.string("a\"b\\c").text == #""a\"b\\c""#)
    #expect(
      JSON.string("\n\r\t\u{0}\u{1b}[31m\u{7f}\u{9b}\u{2028}").text
        == #""\u000a\u000d\u0009\u0000\u001b[31m\u007f\u009b\u2028""#)
    #expect(JSON.string("ü€😀").text == "\"ü€😀\"")
  }

  @Test func `Another parser reads each string back`() throws {
    var random = SeededRandom(seed: 7)
    for _ in 0..<200 {
      let bytes = (0..<Int.random(in: 0..<40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      // As text with bytes that are no UTF-8 gets into the program.
      let text = String(decoding: bytes, as: UTF8.self)
      let line = JSON.object([("t", .string(text))]).text
      #expect(!line.contains("\n"))
      let parsed = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: String]
      let found = try #require(parsed?["t"])
      #expect(Array(found.utf8) == Array(text.utf8))
    }
  }
}
