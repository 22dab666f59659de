import ActorSockets
import ByteText

/// A message of syslog: RFC 5424, section 6.2.1.
package struct SyslogMessage: Sendable {
  package let facility: Int
  package let severity: Int
  /// Everything after the priority.
  package let text: ByteText
  package let sender: SocketAddress?

  /// Parses `<34>1 2003-10-11T22:14:15.003Z …`. Returns `nil` if there is no priority.
  init?(_ bytes: [UInt8], from sender: SocketAddress?) {
    guard let (number, text) = ByteText(bytes).cut(at: ">"), number.begins(with: "<"),
      let priority = number.dropFirst(1).number, 0...191 ~= priority
    else { return nil }
    (facility, severity, self.text, self.sender) = (priority / 8, priority % 8, text, sender)
  }
}

/// Receives syslog over UDP (RFC 5426) and over TCP (RFC 6587).
package struct SyslogReceiver: Sendable {
  /// The largest message, in bytes.
  package static let largest = 8_192

  package var limits = ServeLimits(connections: 1_000, connectionsPerPeer: 20)
  package var drain = Drain.within(.seconds(5))
  package var signals: Set<ProcessSignal> = [.terminate, .interrupt]
  package let log: @Sendable (SyslogMessage) async -> Void

  package init(log: @escaping @Sendable (SyslogMessage) async -> Void) { self.log = log }

  /// Serves both until a signal, or until one of them breaks. Returns how many datagrams and connections there were.
  package func run(_ endpoint: UDPEndpoint, _ listener: some StreamListener) async throws -> (
    datagrams: Int, peers: Int
  ) {
    try await withThrowingTaskGroup { group in
      group.addTask {
        let options = UDPEndpoint.ServeOptions(handlers: 100, overflow: .dropOldest, drain: drain, stopOn: signals)
        let report = try await endpoint.serve(options) { datagram in
          if let message = SyslogMessage(datagram.bytes, from: datagram.remoteAddress) { await log(message) }
        }
        return (report.received, 0)
      }
      group.addTask {
        let report = try await listener.serve(.init(limits: limits, drain: drain, stopOn: signals)) { connection in
          let frames = connection.messages(
            of: .parsing(maximumLength: Self.largest + 5, Self.frame), timeout: .sinceFirstByte(.seconds(30)))
          for try await frame in frames {
            if let message = SyslogMessage(frame, from: connection.remoteAddress) { await log(message) }
          }
        }
        return (0, report.accepted)
      }
      return try await group.reduce((0, 0)) { ($0.0 + $1.0, $0.1 + $1.1) }
    }
  }

  struct BadFrame: Error {}

  /// A frame is `LENGTH SPACE MESSAGE`, or a message and a line feed.
  static func frame(_ bytes: Span<UInt8>) throws -> ParseResult<[UInt8]> {
    guard bytes.count > 0 else { return .incomplete() }
    if bytes[0] == UInt8(ascii: "<") {
      guard let end = bytes.firstIndex(of: 10) else { return .incomplete() }
      return .message(Array(copying: bytes.extracting(..<end)), length: end + 1)
    }
    guard let space = bytes.firstIndex(of: UInt8(ascii: " ")) else {
      if bytes.count > 4 { throw BadFrame() }
      return .incomplete()
    }
    let digits = ByteText(Array(copying: bytes.extracting(..<space)))
    guard let length = digits.number, 1...Self.largest ~= length else { throw BadFrame() }
    let end = space + 1 + length
    if bytes.count < end { return .incomplete(missing: end - bytes.count) }
    return .message(Array(copying: bytes.extracting(space + 1..<end)), length: end)
  }
}
