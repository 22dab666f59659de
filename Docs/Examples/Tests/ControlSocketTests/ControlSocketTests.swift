import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import ControlSocket

@Suite struct ControlSocketTests {
  @Test(.needs(.controlSocket)) func `Commands show and change the server`() async throws {
    try await within("the replies are there") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      #expect(try await server.ask("help").count == 5)
      #expect(try await server.status("process") == "\(server.processIdentifier)")
      #expect(try await server.status("address") == "\(server.address)")
      #expect(try await server.status("connections") == "0 of 0")
      let client = try await TCPConnection.connect(to: server.address)
      #expect(try await RunningServer.answer(on: client) == server.processIdentifier)
      #expect(try await server.status("state") == "serving")
      #expect(try await server.status("connections") == "1 of 1")
      try await waitUntil { try await server.status("lines") == "1" }
      let connections = try await server.ask("connections")
      #expect(connections.count == 1)
      let local = try #require(client.localAddress)
      #expect(connections[0].contains(" \(local) ") && connections[0].hasSuffix(" 1 lines"))
      #expect(try await server.ask("log-level") == ["info"])
      #expect(await !server.program.errors.text.contains("\"hello\""))
      #expect(try await server.ask("log-level", "debug") == ["debug"])
      _ = try await RunningServer.answer(on: client)
      try await server.program.waitForError("\"hello\"")
      let unknown = try Program(.controlSocket, ["ask", server.path, "log-level", "loud"])
      #expect(try await unknown.exitStatus() == 1)
      #expect(await unknown.output.whole == "log-level is one of debug, info, error\n")
      await client.close()
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket)) func `Handovers under load fail no connection`() async throws {
    try await within("the handovers are done") {
      let folder = try Folder()
      var server = try await RunningServer(at: folder.file("control"))
      let (first, address) = (server, server.address)
      let old = try await TCPConnection.connect(to: address)
      #expect(try await RunningServer.answer(on: old) == first.processIdentifier)
      let load = Load()
      await load.start(on: address, tasks: 8)
      var processes: [Int32] = [server.processIdentifier]
      for _ in 1...3 {
        try await waitUntil { await load.count(of: processes.last ?? 0) > 200 }
        let next = try await RunningServer(takingOverAt: server.path)
        #expect(next.address == address)
        // The old process has stopped accepting before the new one binds the control socket.
        #expect(try await next.answer() == next.processIdentifier)
        #expect(try await next.status("process") == "\(next.processIdentifier)")
        if server.processIdentifier != first.processIdentifier {
          #expect(try await server.program.exitStatus() == 0)
          #expect(await server.program.output.whole.contains(" 0 of them aborted"))
        }
        server = next
        processes.append(next.processIdentifier)
      }
      try await waitUntil { await load.count(of: processes.last ?? 0) > 200 }
      // A connection from before goes on in its process, which ends with it.
      #expect(try await RunningServer.answer(on: old) == first.processIdentifier)
      await old.close()
      #expect(try await first.program.exitStatus() == 0)
      let failures = await load.stop()
      #expect(failures == [])
      for process in processes { #expect(await load.count(of: process) > 200) }
      await server.program.stop()
    }
  }

  @Test(.needs(.controlSocket)) func `The command drain ends the server, and so does SIGTERM`() async throws {
    try await within("the servers end") {
      for isCommand in [true, false] {
        let folder = try Folder()
        let server = try await RunningServer(at: folder.file("control"))
        let idle = try await TCPConnection.connect(to: server.address)
        #expect(try await RunningServer.answer(on: idle) == server.processIdentifier)
        if isCommand {
          #expect(try await server.ask("drain") == [])
        } else {
          await server.program.kill(SIGTERM)
        }
        #expect(try await idle.read() == nil)
        await idle.close()
        #expect(try await server.program.exitStatus() == 0)
        #expect(await server.program.output.whole.hasSuffix(" ends after 1 connections, 0 of them aborted\n"))
        let refused = await #expect(throws: SocketError.self) { try await server.answer() }
        #expect(refused?.code == .connectionRefused)
        #expect(!FileManager.default.fileExists(atPath: server.path))
      }
    }
  }

  @Test(.needs(.controlSocket)) func `A second signal ends connections that are busy`() async throws {
    try await within("the server ends") {
      let folder = try Folder()
      let server = try await RunningServer(at: folder.file("control"))
      let busy = try await TCPConnection.connect(to: server.address)
      #expect(try await RunningServer.answer(on: busy) == server.processIdentifier)
      try await busy.write(utf8: "half a li")
      await server.program.kill(SIGTERM)
      try await waitUntil { try await server.status("state") == "draining" }
      // The socket does not listen any more, although the process still runs.
      let refused = await #expect(throws: SocketError.self) { try await server.answer() }
      #expect(refused?.code == .connectionRefused)
      await server.program.kill(SIGINT)
      #expect(try await server.program.exitStatus() == 0)
      #expect(await server.program.output.whole.hasSuffix(" ends after 1 connections, 1 of them aborted\n"))
      await busy.close()
    }
  }

  @Test(.needs(.controlSocket)) func `A stale socket is replaced, and one that is in use is not`() async throws {
    try await within("the second server serves") {
      let folder = try Folder()
      let path = folder.file("control")
      let killed = try await RunningServer(at: path)
      await killed.program.kill(SIGKILL)
      _ = await killed.program.output.whole
      #expect(FileManager.default.fileExists(atPath: path))
      let vain = try Program(.controlSocket, ["take-over", path])
      #expect(try await vain.exitStatus() == 1)
      #expect(await vain.output.whole.contains("no process listens at this address"))
      let server = try await RunningServer(at: path)
      let other = try Program(.controlSocket, ["serve", "127.0.0.1:0", path])
      #expect(try await other.exitStatus() == 1)
      #expect(await other.output.whole.contains("another socket uses this address"))
      #expect(try await server.status("process") == "\(server.processIdentifier)")
      await server.program.stop()
    }
  }
}

/// Clients that connect, ask one question and close, one connection after the other.
actor Load {
  private var counts: [Int32: Int] = [:]
  private var failures: [String] = []
  private var isOver = false
  private var tasks: [Task<Void, Never>] = []

  func start(on address: Endpoint, tasks count: Int) {
    tasks = (0..<count).map { _ in Task { await self.run(on: address) } }
  }

  private func run(on address: Endpoint) async {
    while !isOver {
      do {
        let process = try await RunningServer.answer(from: address)
        if let process { counts[process, default: 0] += 1 } else { failures.append("no answer") }
      } catch {
        failures.append("\(error)")
      }
    }
  }

  /// How many connections a process has answered.
  func count(of process: Int32) -> Int { counts[process] ?? 0 }

  /// Stops, and returns the failures.
  func stop() async -> [String] {
    isOver = true
    for task in tasks { await task.value }
    return failures
  }
}
