import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

/// A server that runs out of descriptors, in earnest and by a tracer that says so.
struct ShortageTests {
  /// A server that another program starts.
  private func listening(
    _ tool: Tool, _ arguments: [String], _ options: [String] = []
  ) async throws -> (Program, String) {
    let command = [Tool.sockcat.url.path, "listen", "127.0.0.1:0", "--echo"]
    return try await Program.announced(Program(tool, arguments + command + options))
  }

  @Test(.needs(.prlimit), .needs(.bash))
  func `A server that is flooded until it has no descriptors answers again afterwards`() async throws {
    let (server, address) = try await listening(.prlimit, ["--nofile=40:40"])
    let port = try #require(address.split(separator: ":").last)
    // More connections than it can have; they stay open until the standard input of their program ends.
    let script = """
      for ((i = 0; i < 100; i++)); do exec {fd}<>/dev/tcp/127.0.0.1/\(port) || exit 1; done
      echo flooded; read
      """
    let flood = try await Program(.bash, ["-c", script], input: .pipe)
    try await flood.waitForOutput("flooded")
    let inVain = try await Program(.sockcat, ["connect", address, "--idle-timeout", "0.3"], input: .pipe)
    try await inVain.send("in vain")
    #expect(try await inVain.exitStatus() == 4)
    let late = try await Program(.sockcat, ["connect", address, "--idle-timeout", "20"], input: .pipe)
    try await late.send("late")
    try await flood.finishInput()
    #expect(try await flood.exitStatus() == 1)
    try await late.waitForOutput("late")
    try await late.finish()
    try await Program.expectEcho(at: address)
    try await server.stop()
    // The server reports the connection that was accepted when only the reserve was left.
    let lines = await server.errors.lines
    #expect(lines.dropFirst().map { $0.contains("connections were refused") } == [true], "\(lines)")
  }

  /// While peers flood the server, it has no descriptor with a number in the reserve.
  @Test(.needs(.prlimit), arguments: [64, 256, 1024], ["pool", "reactor"])
  func `A flood does not use up a server's reserve of descriptors`(limit: Int, place: String) async throws {
    let (server, address) = try await listening(
      .prlimit, ["--nofile=\(limit):\(limit)"], ["--on", place, "--max-connections", "100000"])
    let target = try SocketAddress(parsing: address)
    let descriptors = "/proc/\(await server.processIdentifier)/fd"
    func open() throws -> Set<Int> {
      Set(try FileManager.default.contentsOfDirectory(atPath: descriptors).compactMap { Int($0) })
    }
    let belowReserve = Set(0..<DescriptorReserve(limit: limit).first)
    // Descriptors that the server inherits from this process may have higher numbers.
    let inherited = try open().subtracting(belowReserve)
    for _ in 0..<2 {
      let clients = try (0..<3 * limit).map { _ in try RawSocket.connected(to: target) }
      // One connection is reset, and from then on the others wait.
      for client in clients { try? client.send("x") }
      do {
        try await eventually("all descriptors below the reserve are used, and no others", seconds: 20) {
          try open() == belowReserve.union(inherited)
        }
      } catch {
        Issue.record("\(error): \(try open().sorted()), inherited \(inherited)")
      }
      #expect(try await clients[0].receive(exactly: 1) == Array("x".utf8))
      for client in clients { client.close() }
      try await Program.expectEcho(at: address)
    }
    try await server.stop()
    #expect(await server.errors.whole.contains("connections were refused"))
  }

  @Test(.needs(.strace), arguments: ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "ECONNABORTED", "EPROTO"])
  func `A failing accept is tried again`(error: String) async throws {
    let (server, address) = try await listening(
      .strace,
      ["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=accept4", "-e", "inject=accept4:error=\(error):when=2..4"])
    for _ in 0..<4 { try await Program.expectEcho(at: address) }
    try await server.stop()
  }
}
