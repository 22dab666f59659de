import ActorSockets
import Foundation
import TestSupport
import Testing

@Suite(.endsInTime) struct InspectToolTests {
  @Test func `The tool shows which connection of a server is stuck`() async throws {
    let folder = try Folder()
    let path = folder.file("inspect.sock").path(percentEncoded: false)
    let serving = Task { try await Inspection.serve(on: .unix(path: path)) }
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let echoing = Task {
      try await listener.serve { connection in
        connection.label = "client \(connection.remoteAddress?.port ?? 0)"
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
      }
    }
    let address = Endpoint.address(listener.localAddresses[0])
    let (stuck, busy) = (try await TCPConnection.connect(to: address), try await TCPConnection.connect(to: address))
    stuck.label = "stuck"
    let reading = Task { try? await stuck.read(exactly: 4, timeout: .seconds(600)) }
    try await busy.write(utf8: "hello\n")
    _ = try await busy.read(until: .lf)
    try await eventually("the read waits") { await stuck.status.queuedReads == 1 }
    try await eventually("the socket is there") { FileManager.default.fileExists(atPath: path) }

    let table = try await Program.sockcat(["inspect", path])
    try await table.finish()
    let text = await table.output.text
    let row = try #require(text.split(separator: "\n").first { $0.hasSuffix("  stuck") }, "\(text)")
    #expect(row.hasPrefix("\(stuck.id) ") && row.contains("read exactly 4 bytes") && row.contains("9 min 59 s"))
    let detail = try await Program.sockcat(["inspect", path, "--connection", "\(stuck.id)"])
    try await detail.finish()
    #expect(await detail.output.text.contains("what: read exactly 4 bytes\n"))
    let lines = try await Program.sockcat(["inspect", path, "--json"])
    try await lines.finish()
    #expect(await lines.output.text.split(separator: "\n").last?.hasPrefix(#"{"type":"end","complete":true"#) == true)
    let missing = try await Program.sockcat(["inspect", path, "--connection", "999999999"])
    #expect(try await missing.exitStatus() == 1)
    let watching = try await Program.sockcat(["inspect", path, "--interval", "0.05"])
    try await eventually("the table is printed again") {
      await watching.output.text.components(separatedBy: "NUMBER").count > 3
    }
    try await watching.stop()

    reading.cancel()
    _ = await reading.value
    for connection in [stuck, busy] { await connection.close() }
    for task in [serving] { task.cancel() }
    try await serving.value
    echoing.cancel()
    _ = try? await echoing.value
  }
}
