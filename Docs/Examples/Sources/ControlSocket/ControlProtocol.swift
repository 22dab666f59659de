import ActorSockets
import ByteText

/// An error that a person can read, on either side of the control socket.
struct ControlError: Error, Hashable, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// A command: a line of one or two words.
enum ControlCommand: Hashable {
  case status, connections, drain, handover, help
  case logLevel(Log.Level?)

  /// The largest number of bytes of a line.
  static let longestLine = 256

  init(parsing line: String) throws(ControlError) {
    let words = ByteText(line).parts(at: " ", omitsEmpty: true)
    if words.count == 2, words[0].equals("log-level") {
      guard let level = Log.Level.allCases.first(where: { words[1].equals($0.rawValue) }) else {
        throw ControlError("log-level is one of \(Log.Level.allCases.map(\.rawValue).joined(separator: ", "))")
      }
      self = .logLevel(level)
      return
    }
    guard words.count == 1, let command = Self.plain.first(where: { words[0].equals($0.word) })?.command else {
      throw ControlError("unknown command; help has a list")
    }
    self = command
  }

  /// The commands of one word.
  private static let plain: [(word: String, command: ControlCommand)] = [
    ("status", .status), ("connections", .connections), ("drain", .drain), ("handover", .handover), ("help", .help),
    ("log-level", .logLevel(nil)),
  ]

  static let list = [
    "status             the process, its state and its counts", "connections        a line for each connection",
    "log-level [LEVEL]  shows or sets the level: debug, info, error",
    "drain              stops accepting, and ends when the connections have ended",
    "handover           passes the listening socket to the caller, which then says ready",
  ]
}

/// A reply: `ok` and the number of lines that follow, or `error` and the reason.
///
/// A connection over a unix socket that was aborted looks like one that was closed. So the reply itself says where it ends.
enum ControlReply: WritableMessage {
  case ok([String] = [])
  case error(String)

  static let mostLines = 1000
  static let longestLine = 1024

  func append(to bytes: inout [UInt8]) {
    switch self {
    case .ok(let lines):
      bytes += "ok \(lines.count)\n".utf8
      for line in lines { bytes += "\(line)\n".utf8 }
    case .error(let reason): bytes += "error \(reason)\n".utf8
    }
  }

  /// Reads a reply. Throws the server's error.
  static func read(from connection: TCPConnection, timeout: Timeout) async throws -> [String] {
    func nextLine() async throws -> String {
      guard let line = try await connection.read(.line(maximumLength: longestLine), timeout: timeout) else {
        throw ControlError("the server ended the connection without a reply")
      }
      return line
    }
    let head = ByteText(try await nextLine())
    if head.begins(with: "error ") { throw ControlError(head.dropFirst(6).description) }
    guard head.begins(with: "ok "), let count = head.dropFirst(3).number, 0...mostLines ~= count else {
      throw ControlError("\(head.description.debugDescription) is no reply")
    }
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await nextLine()) }
    return lines
  }
}
