import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The tests of the article about the first server.
@Suite struct FirstServerTests {
  @Test func `A note that one client sets, another client gets`() async throws {
    let notebook = Notebook()
    for (request, reply) in [("set tea at four\n", "ok\n"), ("get tea\n", "at four\n")] {
      let (client, server) = InMemoryConnection.pair()
      async let conversation: Void = answer(server, from: notebook)
      try await client.write(utf8: request)
      #expect(try await client.read(until: .lf) == Array(reply.utf8))
      await client.close()
      try await conversation
    }
  }

  @Test func `A line that does not end is refused`() async throws {
    let (client, server) = InMemoryConnection.pair()
    try await client.write(Array(repeating: 97, count: 2_000))
    await #expect(throws: SocketError.self) { try await answer(server, from: Notebook()) }
  }

  /// The article shows the answers.
  @Test func `The server answers over TCP`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let host = simulation.host("one")
      host.start(serveNotes)
      try await host.run {
        let client = try await TCPConnection.connect(to: .host("one", port: 7777))
        for (request, reply) in [
          ("get tea", "there is no such note"), ("set tea at four", "ok"), ("get tea", "at four"),
        ] {
          try await client.write(utf8: "\(request)\n")
          #expect(try await client.read(until: .lf) == Array("\(reply)\n".utf8))
        }
        try await client.write(utf8: "hello\n")
        #expect(try await client.read(until: .lf).starts(with: "this server understands".utf8))
        await client.close()
      }
    }
  }

  @Test func `The notes have a limit, and a note that exists can still be changed`() async {
    let notebook = Notebook()
    for number in 1...10_000 { #expect(await notebook.answer(to: "set \(number) text") == "ok") }
    #expect(await notebook.answer(to: "set more text") == "there are too many notes")
    #expect(await notebook.answer(to: "set 7 other text") == "ok")
    #expect(await notebook.answer(to: "get 7") == "other text")
  }
}
