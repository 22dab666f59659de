import Foundation
import SocketSystem
import TestSupport
import Testing

/// sockcat, started without some of its standard streams.
@Suite(.endsInTime) struct MissingStreamTests {
  /// Starts sockcat from a shell that closes streams: `<&-`, `>&-`, `2>&-`.
  private func start(_ arguments: [String], without streams: String) async throws -> Program {
    try await Program(.bash, ["-c", "exec \"$0\" \"$@\" \(streams)", Tool.sockcat.url.path] + arguments)
  }

  @Test(.needs(.bash), arguments: ["<&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"])
  func `A client without standard input sends nothing but the end`(streams: String) async throws {
    let listener = try RawSocket.listening()
    let client = try await start(["connect", "\(try listener.address)"], without: streams)
    let peer = try await listener.accept()
    try peer.send("answer")
    #expect(try await peer.receiveToEnd() == [])
    peer.close()
    #expect(try await client.exitStatus() == 0)
    #expect(await client.output.whole == (streams.contains(" >") ? "" : "answer"))
  }

  @Test(.needs(.bash), arguments: [">&-", "2>&-", "<&- >&- 2>&-"])
  func `No peer of a server gets what it prints on a missing stream`(streams: String) async throws {
    let folder = try Folder()
    let address = try SocketAddress.unix(UnixPath(parsing: folder.file("socket").path))
    let server = try await start(["listen", "\(address)", "--echo", "-v"], without: streams)
    // It cannot always say that it listens, and the socket's file is there before that.
    try await eventually("it listens") { (try? RawSocket.connected(to: address)) != nil }
    for _ in 0..<3 {
      let client = try RawSocket.connected(to: address)
      try client.send("hello")
      client.finishWriting()
      #expect(try await client.receiveToEnd() == Array("hello".utf8))
      client.close()
    }
    try await server.stop()
  }
}
