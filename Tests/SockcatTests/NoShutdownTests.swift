import ActorSockets
import Foundation
import TestSupport
import Testing

/// What the peer of sockcat notices of the end of standard input.
struct NoShutdownTests {
  private static func options(_ keepsSending: Bool) -> [String] {
    // It ends the program when nothing else does.
    ["--idle-timeout", "0.5"] + (keepsSending ? ["--no-shutdown"] : [])
  }

  /// Ends the input of a program, and sends it a text when its direction has ended: if the program has ended by then, it cannot print it.
  private func finish(_ program: Program, _ connection: TCPConnection, keepsSending: Bool) async throws {
    try await program.send("question\n")
    #expect(String(decoding: try await connection.read(until: .lf), as: UTF8.self) == "question\n")
    try await program.finishInput()
    _ = try? await connection.read()
    _ = try? await connection.write(utf8: "late\n")
    await connection.close()
    #expect(try await program.exitStatus() == (keepsSending ? 4 : 0))
    #expect(await program.output.whole == (keepsSending ? "" : "late\n"))
  }

  @Test(arguments: [true, false])
  func `A server notices the end of input only if the sending direction does not stay open`(keepsSending: Bool)
    async throws
  {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let program = try await Program(
      .sockcat, ["connect", "\(listener.localAddresses[0])"] + Self.options(keepsSending), input: .pipe)
    try await finish(program, try await listener.accept(), keepsSending: keepsSending)
    await listener.close()
  }

  @Test(arguments: [true, false])
  func `A client notices the end of input only if the sending direction does not stay open`(keepsSending: Bool)
    async throws
  {
    let (program, address) = try await Program.listening(
      ["127.0.0.1:0"] + Self.options(keepsSending), input: .pipe)
    let connection = try await TCPConnection.connect(to: Endpoint(parsing: address))
    try await finish(program, connection, keepsSending: keepsSending)
  }

  @Test func `A server that takes the end for a disconnect is answered to the last byte`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let program = try await Program(
      .sockcat, ["connect", "\(listener.localAddresses[0])", "--no-shutdown"], input: .pipe)
    let connection = try await listener.accept()
    try await program.send("question\n")
    try await program.finishInput()
    #expect(String(decoding: try await connection.read(until: .lf), as: UTF8.self) == "question\n")
    try await connection.write(utf8: "answer\n")
    await connection.close()
    #expect(try await program.exitStatus() == 0)
    #expect(await program.output.whole == "answer\n")
    await listener.close()
  }
}
