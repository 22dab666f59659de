import ActorSockets

// The server of the article about the first server.

/// The notes that all clients share.
actor Notebook {
  private let limit = 10_000
  private var notes: [String: String] = [:]

  func answer(to line: String) -> String {
    let words = line.split(separator: " ", maxSplits: 2).map(String.init)
    switch (words.first, words.count) {
    case ("get", 2):
      return notes[words[1]] ?? "there is no such note"
    case ("set", 3) where notes.count < limit || notes[words[1]] != nil:
      notes[words[1]] = words[2]
      return "ok"
    case ("set", 3):
      return "there are too many notes"
    default:
      return "this server understands: set NAME TEXT, get NAME"
    }
  }
}

/// Answers one client, line by line, until it ends the connection.
func answer(_ client: some ByteStream, from notebook: Notebook) async throws {
  for try await line in client.lines(maximumLength: 1_024, timeout: .seconds(60)) {
    try await client.write(utf8: "\(await notebook.answer(to: line))\n", timeout: .seconds(10))
  }
}

func serveNotes() async throws {
  let notebook = Notebook()
  let listener = try TCPListener.bind(to: .port(7777))
  print("listening on", listener.localAddresses)

  let limits = ServeLimits(connections: 1_000, connectionsPerPeer: 100)
  let report = try await listener.serve(.init(limits: limits, stopOn: [.terminate, .interrupt])) { connection in
    try await answer(connection, from: notebook)
  }
  print("served", report.accepted, "connections")
}
