import ActorSockets
import Foundation
import TestSupport
import Testing

/// The examples of the article about where code runs.
@Suite struct CodePlacesTests {
  @Test(arguments: 0..<3)
  func `A handler answers lines, wherever it runs`(place: Int) async throws {
    try await within("the answer arrives") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task {
        switch place {
        case 0: try await serveOnPool(listener)
        case 1: try await serveOnReactor(listener)
        default: try await serveIsolated(listener)
        }
      }
      let client = try await TCPConnection.connect(to: .address(try #require(listener.localAddresses.first)))
      try await client.write(utf8: "hello\n")
      #expect(try await client.read(until: .lf) == Array("HELLO\n".utf8))
      await client.close()
      serving.cancel()
      try await serving.value
    }
  }

  @Test func `An actor on the reactor counts the lines of all handlers`() async throws {
    try await within("all lines are counted") {
      let counter = LineCounter()
      await withTaskGroup { group in
        for _ in 0..<100 { group.addTask(executorPreference: Reactor.shared) { await counter.add() } }
      }
      #expect(await counter.count == 100)
    }
  }

  @Test func `Code that blocks returns its result, or its error`() async throws {
    try await within("the files arrive") {
      let folder = URL.temporaryDirectory.appending(path: UUID().uuidString)
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      try Data("contents\n".utf8).write(to: folder.appending(path: "there"))
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task { try await serveFiles(listener, in: folder) }
      let client = try await TCPConnection.connect(to: .address(try #require(listener.localAddresses.first)))
      try await client.write(utf8: "../there\nthere\n")
      #expect(try await client.read(until: .lf) == Array("contents\n".utf8))
      await client.close()
      serving.cancel()
      try await serving.value
      await #expect(throws: (any Error).self) {
        try await blocking { try Data(contentsOf: folder.appending(path: "not there")) }
      }
    }
  }
}
