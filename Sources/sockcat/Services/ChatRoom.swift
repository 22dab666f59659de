import ActorSockets

/// Each connection receives the lines of all others, and no connection waits for another: a line is put into the queue
/// of each receiver. A receiver that reads too slowly exceeds the write budget, and its connection is aborted.
actor ChatRoom: Service {
  static let lineLimit = 4096

  private struct Member {
    let name: String
    let connection: any ByteStream
  }

  private var members: [UInt64: Member] = [:]
  private var guests = 0
  private var isClosed = false

  nonisolated func serve(_ connection: some ByteStream) async throws {
    guard await enter(connection) else { return }
    do {
      try await listen(to: connection)
      await leave(connection, "left")
    } catch {
      await leave(connection, (error as? SocketError)?.code == .peerTooSlow ? "was too slow and is gone" : "is gone")
      throw error
    }
  }

  func drain() {
    isClosed = true
    announce("the room closes")
    for member in members.values { member.connection.beginClose() }
  }

  // MARK: One connection

  private nonisolated func listen(to connection: some ByteStream) async throws {
    var lines = connection.lines(maximumLength: Self.lineLimit).makeAsyncIterator()
    while true {
      do {
        guard let line = try await lines.next() else { return }
        await say(line, connection)
      } catch let error as SocketError {
        switch error.code {
        case .invalidUTF8:
          await tell(connection, "that line was not UTF-8, so it was not sent")
        case .endOfStream:
          return await say(String(decoding: await connection.takeBuffered(), as: UTF8.self), connection)
        case .limitExceeded:
          return await tell(connection, "that line is longer than \(Self.lineLimit) bytes, good bye")
        case .closed:
          return
        default:
          throw error
        }
      }
    }
  }

  // MARK: The room

  private func enter(_ connection: any ByteStream) -> Bool {
    if isClosed { return false }
    guests += 1
    let member = Member(name: "guest\(guests)", connection: connection)
    let others = members.values.map(\.name).sorted().joined(separator: ", ")
    announce("\(member.name) joined")
    members[connection.id] = member
    post("* you are \(member.name); " + (others.isEmpty ? "nobody else is here" : "here: \(others)"), to: connection)
    return true
  }

  private func leave(_ connection: any ByteStream, _ how: String) {
    guard let member = members.removeValue(forKey: connection.id) else { return }
    if !isClosed { announce("\(member.name) \(how)") }
  }

  private func say(_ line: String, _ connection: any ByteStream) {
    guard let speaker = members[connection.id] else { return }
    // The text may be shown in a terminal, so control characters are removed.
    var text = String.UnicodeScalarView()
    text.append(contentsOf: line.unicodeScalars.filter { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
    for member in members.values where member.connection.id != connection.id {
      post("\(speaker.name): \(String(text))", to: member.connection)
    }
  }

  private func announce(_ text: String) {
    for member in members.values { post("* " + text, to: member.connection) }
  }

  private func tell(_ connection: any ByteStream, _ text: String) { post("* " + text, to: connection) }

  /// If the line exceeds the write budget, the connection is aborted, and its handler reports that.
  private func post(_ line: String, to connection: any ByteStream) {
    _ = connection.enqueueWrite(Array((line + "\n").utf8))
  }
}
