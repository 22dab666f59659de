import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SocketActivationTests {
  private func read(_ pid: String?, _ count: String?, _ names: String?) throws -> SocketActivation {
    let variables = ["LISTEN_PID": pid, "LISTEN_FDS": count, "LISTEN_FDNAMES": names]
    return try SocketActivation(processID: 77) { variables[$0] ?? nil }
  }

  @Test(
    arguments: [
      ("1", nil, ["unknown"]), ("1", "", ["unknown"]), ("3", nil, ["unknown", "unknown", "unknown"]),
      ("1", "http", ["http"]), ("2", "http:admin", ["http", "admin"]), ("3", "a::a", ["a", "", "a"]),
      ("2", ":", ["", ""]), ("2", "a:\u{301}b", ["a", "\u{301}b"]), ("0002", "a:b", ["a", "b"]),
    ] as [(String, String?, [String])])
  func `Descriptors are counted from 3 on, each with its name`(count: String, names: String?, expected: [String]) throws
  {
    let sockets = try read("77", count, names).sockets
    #expect(sockets.map(\.number) == Array(3..<(3 + Int32(expected.count))))
    #expect(sockets.map(\.name) == expected)
  }

  @Test(
    arguments: [
      (nil, nil, nil), (nil, "2", "a:b"), ("78", "2", "a:b"), ("7", "1", nil), ("4294967295", "1", nil),
      ("77", nil, "a"),
      // Wrong variables for another process are allowed.
      ("78", "nonsense", nil),
    ] as [(String?, String?, String?)])
  func `Variables for no process or another one pass no sockets`(pid: String?, count: String?, names: String?) throws {
    #expect(try read(pid, count, names).sockets.isEmpty)
  }

  @Test(
    arguments: [
      ("", "1", nil), ("0", "1", nil), ("-77", "1", nil), ("+77", "1", nil), (" 77", "1", nil), ("77x", "1", nil),
      ("4294967296", "1", nil), ("99999999999999999999999", "1", nil), ("77", "", nil), ("77", "0", nil),
      ("77", "-1", nil),
      ("77", "+1", nil), ("77", "1 ", nil), ("77", "1.0", nil), ("77", "0x1", nil), ("77", "4097", nil),
      ("77", "2147483647", nil), ("77", "4294967297", nil), ("77", "99999999999999999999999", nil), ("77", "one", nil),
      ("77", "1", "a:b"), ("77", "2", "a"), ("77", "2", "a:b:c"), ("77", "1", ":"), ("77", "1\n", nil),
    ] as [(String, String, String?)])
  func `Nonsense is refused with the variable and its value`(pid: String, count: String, names: String?) throws {
    let error = expectErrorNow(.invalidArgument) { _ = try read(pid, count, names) }
    #expect(error.description.contains("LISTEN_"))
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 })
  }

  @Test func `The most that can be passed is passed`() throws {
    #expect(try read("77", "4096", nil).sockets.last?.number == 4098)
  }
}
