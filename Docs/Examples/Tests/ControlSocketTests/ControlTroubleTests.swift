import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import ControlSocket

/// What the two sides do with a peer that does not keep to the protocol.
@Suite struct ControlTroubleTests {
  // MARK: Clients of a server

  @Test(
    .needs(.controlSocket),
    arguments: [
      ("\n", "error unknown command; help has a list\n"), ("STATUS\n", "error unknown command; help has a list\n"),
      ("status now\n", "error unknown command; help has a list\n"),
      ("ready\n", "error unknown command; help has a list\n"),
      ("log-level loud\n", "error log-level is one of debug, info, error\n"),
      ("\u{0}\u{1}\u{2}\n", "error unknown command; help has a list\n"),
    ])
  func `A line that is no command gets an error, and the next command a reply`(line: String, reply: String) async throws
  {
    try await within("the replies are there") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      let client = try await connectRaw(to: server.path)
      try await client.write(utf8: line + "log-level\n")
      #expect(String(decoding: try await client.read(exactly: reply.utf8.count), as: UTF8.self) == reply)
      #expect(try await client.read(exactly: 10) == Array("ok 1\ninfo\n".utf8))
      await client.close()
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket)) func `A line that is no text or too long ends the connection`() async throws {
    try await within("the connections end") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      for bytes in [Array("drain ".utf8) + [255, 10], [UInt8](repeating: 97, count: 257)] {
        let client = try await connectRaw(to: server.path)
        // The second line is not to be carried out.
        try await client.write(bytes + Array("\ndrain\n".utf8))
        let answer = try await client.read(.line())
        #expect(answer == "error a command is a line of text with at most 256 bytes")
        // The end may be a reset, because the server has not read everything.
        let end = try? await client.read()
        #expect(end == nil)
        await client.close()
      }
      #expect(try await server.status("state") == "serving")
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket)) func `Descriptors that clients pass do not stay open`() async throws {
    try await within("the descriptors are closed") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      let client = try await connectRaw(to: server.path)
      try await client.write(utf8: "log-level\n")
      _ = try await client.read(exactly: 10)
      let before = try server.descriptors
      for _ in 0..<50 {
        try await client.write(Array("log-level\n".utf8), passing: someDescriptor())
        #expect(try await client.read(exactly: 10) == Array("ok 1\ninfo\n".utf8))
      }
      #expect(try server.descriptors == before)
      await client.close()
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket)) func `A successor that is never ready changes nothing`() async throws {
    try await within("the server goes on") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      // Before any client, because the server may notice an end later than its client.
      let before = try server.descriptors
      for isSilent in [false, true] {
        let successor = try await ControlClient(path: server.path)
        let socket = try await successor.requestSocket()
        let second = try await ControlClient(path: server.path)
        let refused = await #expect(throws: ControlError.self) { _ = try await second.requestSocket() }
        #expect(refused == ControlError("the server is handing over"))
        await second.close()
        // It accepts meanwhile, although the successor does not.
        #expect(try await server.answer() == server.processIdentifier)
        if !isSilent {
          let answer = await #expect(throws: ControlError.self) { _ = try await successor.ask("status") }
          #expect(answer == ControlError("the next process is not ready"))
        }
        await successor.close()
        _ = consume socket
        try await waitUntil { try await server.status("state") == "serving" }
      }
      #expect(try await server.answer() == server.processIdentifier)
      try await waitUntil { try server.descriptors == before }
      let next = try await RunningServer(takingOverAt: server.path)
      #expect(try await server.program.exitStatus() == 0)
      await next.program.stop()
    }
  }

  @Test func `A successor has limited time`() async throws {
    try await within("the server goes on") {
      let folder = try Folder()
      try await withControl(at: folder.file("control")) {
        $0.limits.takeover = .milliseconds(50)
      } _: { service in
        let successor = try await ControlClient(path: folder.file("control"))
        let socket = try await successor.requestSocket()
        try await waitUntil { await service.status.contains("state: serving") }
        _ = consume socket
        await successor.close()
      }
    }
  }

  @Test func `A user who is not allowed gets no answer but an error`() async throws {
    try await within("the client is refused") {
      let folder = try Folder()
      try await withControl(at: folder.file("control")) {
        $0.allowedUsers = [geteuid() + 1]
      } _: { service in
        let client = try await ControlClient(path: folder.file("control"))
        let refused = await #expect(throws: ControlError.self) { _ = try await client.ask("drain") }
        #expect(refused == ControlError("user \(geteuid()) may not control this server"))
        await client.close()
        #expect(await service.status.contains("state: serving"))
      }
    }
  }

  @Test(.needs(.controlSocket), .needs(.python), .enabled("only root can become another user") { geteuid() == 0 })
  func `The permissions of the control socket keep other users out`() async throws {
    try await within("the client is refused") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      let attributes = try FileManager.default.attributesOfItem(atPath: server.path)
      #expect(attributes[.posixPermissions] as? Int == 0o600)
      let script = """
        import os, socket, sys
        os.setgid(65534)
        os.setuid(65534)
        try:
            socket.socket(socket.AF_UNIX).connect(sys.argv[1])
        except PermissionError:
            print("refused")
        """
      #expect(try await Program.run(.python, ["-c", script, server.path]) == "refused\n")
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket), .needs(.python), .enabled("only root can become another user") { geteuid() == 0 })
  func `A successor takes no socket from another user`() async throws {
    try await within("the successor refuses") {
      let folder = try Folder()
      let path = folder.file("control")
      // The kernel notes the user who calls listen(2).
      let script = """
        import os, socket, sys
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[1])
        os.setuid(65534)
        listener.listen()
        print("listening", flush=True)
        listener.accept()[0].recv(1)
        """
      let other = try Program(.python, ["-c", script, path])
      try await other.waitForOutput("listening\n")
      let successor = try Program(.controlSocket, ["take-over", path])
      #expect(try await successor.exitStatus() == 1)
      #expect(await successor.output.whole == "the server belongs to user 65534\n")
      #expect(try await other.exitStatus() == 0)
    }
  }

  // MARK: A server of a successor

  @Test func `A successor takes exactly one socket, and leaves no descriptor open`() async throws {
    try await within("the successor refuses") {
      let folder = try Folder()
      let ok = "ok 1\n127.0.0.1:7777\n"
      let head = Array("ok 2\n".utf8)
      let cases: [(String, @Sendable (TCPConnection) async throws -> Void)] = [
        ("the server has passed no socket", { try await $0.write(utf8: ok) }),
        (
          "the server has passed more than a socket",
          {
            for bytes in [head, Array("a\n".utf8), Array("b\n".utf8)] {
              try await $0.write(bytes, passing: someDescriptor())
            }
          }
        ),
        ("no", { try await $0.write(Array("error no\n".utf8), passing: someDescriptor()) }),
        ("\"hello\" is no reply", { try await $0.write(Array("hello\n".utf8), passing: someDescriptor()) }),
        ("\"ok 1001\" is no reply", { try await $0.write(utf8: "ok 1001\n") }),
        ("the server ended the connection without a reply", { try await $0.write(utf8: "ok 1\n") }),
      ]
      var before: Int?
      for (number, (expected, answer)) in cases.enumerated() {
        let path = folder.file("control\(number)")
        let listener = try TCPListener.bind(to: .unix(path: path))
        let serving = Task {
          try await listener.serve(.init(drain: .immediately)) {
            _ = try await $0.read(.line())
            try await answer($0)
            try await $0.finishWriting()
            _ = try await $0.read()
          }
        }
        let client = try await ControlClient(path: path)
        let error = await #expect(throws: (any Error).self) { _ = try await client.requestSocket() }
        #expect((error as? ControlError)?.description == expected)
        await client.close()
        await listener.drain(within: .zero)
        _ = try await serving.value
        // The first round opens what stays open, such as the reactor's descriptors.
        if let before {
          try await waitUntil { try openDescriptors() <= before }
        } else {
          before = try openDescriptors()
        }
      }
    }
  }

  @Test(arguments: [false, true]) func `A descriptor that is no listening socket is refused`(isSocket: Bool) throws {
    let before = try openDescriptors()
    let error = #expect(throws: SocketError.self) {
      let descriptor =
        isSocket ? OwnedDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)) : try someDescriptor()
      _ = try Service(descriptor, log: Log())
    }
    #expect(error?.code == (isSocket ? .invalidArgument : .notASocket))
    #expect(try openDescriptors() == before)
  }

  @Test(.needs(.controlSocket)) func `A predecessor that dies during the handover is replaced`() async throws {
    try await within("the successor serves") {
      let folder = try Folder()
      let path = folder.file("control")
      let listener = try TCPListener.bind(to: .unix(path: path))
      let socket = try OwnedDescriptor.listening(on: "127.0.0.1", port: 0)
      let passed = try OwnedDescriptor(duplicating: socket.number)
      let number = passed.release()
      async let next = RunningServer(takingOverAt: path)
      let connection = try await listener.accept()
      #expect(try await connection.read(.line()) == "handover")
      try await connection.write(Array("ok 0\n".utf8), passing: OwnedDescriptor(owning: number))
      #expect(try await connection.read(.line()) == "ready")
      // As after a crash: no answer, and no control socket.
      await listener.close()
      await connection.abort()
      let server = try await next
      #expect(try await server.answer() == server.processIdentifier)
      await server.program.stop()
      _ = consume socket
    }
  }

  /// Runs a service and its control socket in this process.
  private func withControl(
    at path: String, _ change: (inout ControlServer) -> Void,
    _ body: @Sendable @escaping (Service) async throws -> Void
  ) async throws {
    let service = try Service(.listening(on: "127.0.0.1", port: 0), log: Log())
    service.log.level = .error
    var made = try ControlServer(for: service, at: path)
    change(&made)
    let control = made
    let serving = Task { try await service.serve() }
    let controlling = Task { try await control.serve() }
    try await body(service)
    await service.drain(within: .zero)
    _ = try await serving.value
    controlling.cancel()
    try await controlling.value
  }
}
