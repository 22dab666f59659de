import ActorSockets

/// The clients of a chat. Each hears what the others say.
actor ChatRoom {
  private var members: [UInt64: any ByteStream] = [:]

  func enter(_ member: any ByteStream) {
    members[member.id] = member
    _ = member.enqueueWrite(Array("welcome\n".utf8))
  }

  func leave(_ member: any ByteStream) { members[member.id] = nil }

  func say(_ line: String, from speaker: any ByteStream) {
    for member in members.values where member.id != speaker.id {
      _ = member.enqueueWrite(Array("\(line)\n".utf8))
    }
  }
}

/// Serves a chat until the listener drains.
func serveChat(on listener: some StreamListener) async throws -> ServeReport {
  let room = ChatRoom()
  return try await listener.serve(.init(limits: .init(connectionsPerPeer: 2), stopOn: [.terminate])) { connection in
    await room.enter(connection)
    do {
      for try await line in connection.lines(maximumLength: 500) { await room.say(line, from: connection) }
      await room.leave(connection)
    } catch {
      await room.leave(connection)
      throw error
    }
  }
}
