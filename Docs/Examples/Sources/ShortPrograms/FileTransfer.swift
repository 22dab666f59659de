import ActorSockets
import ByteText
import FoundationEssentials

// A client asks `GET OFFSET NAME`, and the server answers `OK SIZE` and the bytes from the offset, or `NO` and a reason. A file does not
// change once it has its name.

/// Sends the files of a folder.
package struct FileSender: Sendable {
  package let folder: String
  package var options = ServeOptions(
    limits: .init(connections: 200, connectionsPerPeer: 10), drain: .within(.seconds(60)),
    stopOn: [.terminate, .interrupt])
  /// A client that receives less than this many bytes a second is disconnected.
  package var slowest = 1_000

  package init(_ folder: String) { self.folder = folder }

  /// Serves until a signal. Transfers then have the time of the drain.
  package func run(_ listener: some StreamListener) async throws -> ServeReport {
    try await listener.serve(options) { client in
      for try await line in client.lines(maximumLength: 512, timeout: .seconds(60)) {
        let words = ByteText(line).parts(at: " ", maxSplits: 2)
        guard words.count == 3, words[0].equals("GET"), let offset = words[1].number, isName(words[2]),
          let file = try? FileSource(path: "\(folder)/\(words[2])"), let size = try? file.count, offset <= size
        else {
          try await client.write(utf8: "NO such file\n", timeout: .seconds(30))
          continue
        }
        try await client.write(utf8: "OK \(size)\n", timeout: .seconds(30))
        let atLeast = Timeout.after(.seconds(30)) { [slowest] elapsed, done in
          done >= slowest * Int(elapsed.components.seconds) ? .seconds(30) : nil
        }
        try await client.sendFile(file, range: offset..<size, timeout: atLeast)
      }
    }
  }

  private func isName(_ name: ByteText) -> Bool { !name.has("/") && !name.begins(with: ".") && !name.has("\0") }
}

/// Receives files. A transfer that breaks keeps the bytes that have arrived, and the next one goes on there.
package struct FileReceiver: Sendable {
  enum Failure: Error { case refused(String), badAnswer, tooLarge }

  package let server: Endpoint
  /// The largest file, in bytes.
  package var largest = 1 << 40
  /// How long the server may send nothing.
  package var patience: Duration = .seconds(30)

  package init(_ server: Endpoint) { self.server = server }

  /// Receives a file, or the rest of it. If it throws, call it again.
  ///
  /// - Parameters:
  ///   - name: The name of the file.
  ///   - path: Where to keep it. Until it is complete, it is at this path with `.part` behind it.
  /// - Returns: The number of bytes that were received now.
  /// - Throws: `SocketError`, `CocoaError`, or what the server has answered.
  package func run(_ name: String, to path: String) async throws -> Int {
    let part = try FileSink(path: "\(path).part")
    let offset = try part.count
    let received = try await TCPConnection.withConnection(to: server, timeout: .within(patience)) { connection in
      let answer = try await connection.ask(
        utf8: "GET \(offset) \(name)\n", for: .line(maximumLength: 512), timeout: .within(patience))
      let words = ByteText(answer ?? "").parts(at: " ", maxSplits: 1)
      guard words.count == 2, words[0].equals("OK") else { throw Failure.refused(answer ?? "") }
      guard let size = words[1].number, size >= offset else { throw Failure.badAnswer }
      guard size <= largest else { throw Failure.tooLarge }
      return try await connection.receiveFile(part, at: offset, count: size - offset, timeout: Timeout(patience))
    }
    try await part.synchronize()
    try FileManager.default.moveItem(atPath: "\(path).part", toPath: path)
    return received
  }
}
