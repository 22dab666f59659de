import ActorSockets
import ExampleSupport
import Foundation

@testable import FileServer

extension Tool {
  static let fileServer = Tool(example: "FileServer")
}

/// A server in this process, with a folder.
struct RunningServer: Sendable {
  let folder: Folder
  let listener: TCPListener
  let address: SocketAddress
  private let serving: Task<ServeReport, any Error>

  init(site: String = "site", _ change: (inout FileServer) -> Void = { _ in }) throws {
    folder = try Folder()
    try folder.write("\(site)/hello.txt", "hello\n".utf8)
    try folder.write("\(site)/index.html", "<p>home\n".utf8)
    try folder.write("\(site)/sub folder/index.html", "<p>sub\n".utf8)
    try folder.write("\(site)/empty/.keep", [])
    try folder.write("\(site)/large.bin", RunningServer.large)
    if site == "site" { try folder.write("secret.txt", "secret\n".utf8) }
    var server = FileServer(site: try FileSite(root: folder.file(site)))
    change(&server)
    listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    address = listener.localAddresses[0]
    serving = Task { [server, listener] in
      try await listener.serve(.init(drain: .within(.seconds(30), idleReads: .endAll))) { try await server.serve($0) }
    }
  }

  static let large = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 11) }

  func url(_ path: String) -> String { "http://\(address)\(path)" }

  /// Runs curl, which prints the answer.
  func curl(_ arguments: String...) async throws -> String {
    try await Program.run(.curl, ["--silent", "--show-error", "--max-time", "20"] + arguments)
  }

  /// Runs curl, and returns the status of the answer.
  func status(_ path: String, _ arguments: String...) async throws -> String {
    try await Program.run(
      .curl,
      ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--path-as-is", "--max-time", "20"]
        + arguments + [url(path)])
  }

  /// Sends bytes on a new connection, and returns everything that the server sends until it ends the connection.
  func answer(to request: String) async throws -> String {
    let connection = try await TCPConnection.connect(to: .address(address))
    try await connection.write(utf8: request)
    var answer: [UInt8] = []
    while try await connection.read(into: &answer) > 0 {}
    await connection.close()
    return String(decoding: answer, as: UTF8.self)
  }

  func stop() async throws -> ServeReport {
    await listener.drain(within: .seconds(30))
    return try await serving.value
  }
}
