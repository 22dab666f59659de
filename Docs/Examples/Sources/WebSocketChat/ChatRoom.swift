import ActorSockets

/// The members of a chat. Each hears what the others say, in the same order.
actor ChatRoom {
  private struct Member {
    var name: String
    var connection: any ByteStream
  }

  private var members: [UInt64: Member] = [:]
  /// The last lines, which a new member hears first.
  private var history: [String] = []
  private let historyLimit: Int

  init(historyLimit: Int = 20) { self.historyLimit = historyLimit }

  func enter(_ connection: any ByteStream, as name: String) {
    for line in history { send(line, to: connection) }
    members[connection.id] = Member(name: name, connection: connection)
    say("* \(name) is here")
  }

  func leave(_ connection: any ByteStream) {
    guard let member = members.removeValue(forKey: connection.id) else { return }
    say("* \(member.name) has left")
  }

  /// Sends what a member says to everyone.
  func say(_ text: String, from connection: any ByteStream) {
    if let member = members[connection.id] { say("\(member.name): \(text)") }
  }

  private func say(_ line: String) {
    history.append(line)
    if history.count > historyLimit { history.removeFirst() }
    for member in members.values { send(line, to: member.connection) }
  }

  /// Sends without waiting, so that a member that receives slowly delays no other. Its connection is aborted if too much waits: see
  /// `ChatServer.connectionConfiguration`.
  private func send(_ line: String, to connection: any ByteStream) {
    _ = try? connection.enqueueWrite(message: WebSocketFrame(opcode: .text, payload: Array(line.utf8)))
  }
}
