import ActorSockets

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
    let words = line.split(separator: " ")
    switch (words.first, words.count) {
    case ("status", 1): self = .status
    case ("connections", 1): self = .connections
    case ("drain", 1): self = .drain
    case ("handover", 1): self = .handover
    case ("help", 1): self = .help
    case ("log-level", 1): self = .logLevel(nil)
    case ("log-level", 2):
      guard let level = Log.Level(rawValue: String(words[1])) else {
        throw ControlError("log-level is one of \(Log.Level.allCases.map(\.rawValue).joined(separator: ", "))")
      }
      self = .logLevel(level)
    default: throw ControlError("unknown command; help has a list")
    }
  }

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
    let head = try await nextLine()
    if head.hasPrefix("error ") { throw ControlError(String(head.dropFirst(6))) }
    guard head.hasPrefix("ok "), let count = Int(head.dropFirst(3)), 0...mostLines ~= count else {
      throw ControlError("\(head.debugDescription) is no reply")
    }
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await nextLine()) }
    return lines
  }
}
