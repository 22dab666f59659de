import ActorSockets
import ByteText
import Synchronization

/// A chat of lines. A member who reads too slowly is disconnected, and so is one who floods.
package struct ChatServer: Sendable {
  package var options = ServeOptions(
    limits: .init(connections: 1_000, connectionsPerPeer: 10), drain: .within(.seconds(5)),
    stopOn: [.terminate, .interrupt])
  /// The lines that a member may say in a second.
  package var linesPerSecond = 20

  package init() {}

  /// At most 64 KiB wait for a member.
  package static func bind(to endpoint: Endpoint) throws -> TCPListener {
    try TCPListener.bind(
      to: endpoint,
      configuration: .with {
        $0.connection.writeBudget = 64 << 10
        $0.connection.onWriteOverflow = .abort
      })
  }

  /// Serves until a signal, and then says goodbye.
  package func run(_ listener: some StreamListener) async throws -> ServeReport {
    let room = ChatRoom()
    return try await listener.serve(options) { connection in
      try await connection.write(utf8: "Who are you?\n", timeout: .seconds(10))
      let name = try await connection.read(.line(maximumLength: 32), timeout: .seconds(60)).map {
        ByteText(printable($0))
      }
      guard let name, room.enter(name, connection) else {
        return try await connection.write(utf8: "This name is taken.\n", timeout: .seconds(10))
      }
      defer { room.leave(name) }
      var second = (start: ContinuousClock.now, lines: 0)
      for try await line in connection.lines(maximumLength: 1_000, timeout: .sinceFirstByte(.seconds(30))) {
        if second.start + .seconds(1) < .now { second = (.now, 0) }
        second.lines += 1
        guard second.lines <= linesPerSecond else {
          throw SocketError(.limitExceeded, operation: "read", detail: "\(name) says too much")
        }
        room.say("\(name): \(printable(line))", except: name)
      }
      if connection.isDraining { try await connection.write(utf8: "The server stops.\n", timeout: .seconds(1)) }
    }
  }

  /// Others would act on control characters in a terminal.
  private func printable(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.filter { $0.value >= 32 && !(127..<160).contains($0.value) }))
  }
}

/// The members. No call waits, so it needs no actor, and a handler can leave in a `defer`.
private final class ChatRoom: Sendable {
  private let members = Mutex<[ByteText: any ByteStream]>([:])

  /// Returns `false` if the name is taken.
  func enter(_ name: ByteText, _ member: any ByteStream) -> Bool {
    let isNew = members.withLock { members in
      if name.isEmpty || members[name] != nil { return false }
      members[name] = member
      return true
    }
    if isNew { say("\(name) has come", except: nil) }
    return isNew
  }

  func leave(_ name: ByteText) {
    members.withLock { _ = $0.removeValue(forKey: name) }
    say("\(name) has left", except: nil)
  }

  func say(_ line: String, except speaker: ByteText?) {
    let bytes = Array("\(line)\n".utf8)
    for (name, member) in members.withLock({ $0 }) where name != speaker { _ = member.enqueueWrite(bytes) }
  }
}
