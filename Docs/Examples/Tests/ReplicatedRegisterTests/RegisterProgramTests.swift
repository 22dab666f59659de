import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import ReplicatedRegister

extension Tool {
  fileprivate static let register = Tool(example: "ReplicatedRegister")
}

/// The program as processes on this machine, with files.
@Suite struct RegisterProgramTests {
  private struct Process {
    let program: Program
    let place: String
  }

  private func start(_ directory: String, at place: String = "127.0.0.1:0") async throws -> Process {
    let program = try Program(.register, ["replica", directory, place])
    try await program.waitForOutput("\n")
    let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
    return Process(program: program, place: String(line.1))
  }

  private func run(_ words: String...) async throws -> String { try await Program.run(.register, words) }

  @Test(.needs(.register)) func `A value survives replicas that are killed, one after the other`() async throws {
    try await within("the value is read") {
      let folders = try (1...3).map { _ in try Folder() }
      var replicas: [Process] = []
      for folder in folders { replicas.append(try await start(folder.path)) }
      let places = replicas.map(\.place)
      #expect(try await Program.run(.register, ["read"] + places) == "(nothing)\n")
      #expect(try await Program.run(.register, ["write", "first value"] + places) == "")
      #expect(try await Program.run(.register, ["read"] + places) == "first value\n")

      await replicas[0].program.kill(SIGKILL)
      #expect(try await Program.run(.register, ["write", "second"] + places) == "")
      await replicas[1].program.kill(SIGKILL)
      // The first one has missed the second value, so the answer needs its write and the disk of the second one.
      replicas[0] = try await start(folders[0].path, at: places[0])
      replicas[1] = try await start(folders[1].path, at: places[1])
      await replicas[2].program.kill(SIGKILL)
      #expect(try await Program.run(.register, ["read"] + places) == "second\n")

      for replica in replicas.prefix(2) {
        await replica.program.kill(SIGTERM)
        #expect(try await replica.program.exitStatus() == 0)
        #expect(await replica.program.output.whole.contains("stopped after "))
      }
      for folder in folders.prefix(2) {
        let entry = try await EntryFile(disk: LinuxDisk(directory: folder.path)).load()
        #expect(entry.value == "second")
      }
    }
  }

  @Test(.needs(.register)) func `Without a majority the program says so`() async throws {
    try await within("the program ends") {
      let folder = try Folder()
      let replica = try await start(folder.path)
      let probe = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let nothing = "\(probe.localAddresses[0])"
      await probe.close()
      let client = try Program(
        Tool("env", package: "coreutils"),
        ["TIMEOUT=1", Tool.register.url.path, "read", replica.place, nothing, nothing])
      #expect(try await client.exitStatus() == 1)
      let reason = await client.errors.whole
      #expect(reason.hasPrefix("no majority of the replicas has answered: ") && reason.contains("refused"), "\(reason)")
      await replica.program.stop()
    }
  }

  @Test func `A file that is damaged stops a replica, and a missing one does not`() async throws {
    let folder = try Folder()
    let file = EntryFile(disk: try LinuxDisk(directory: folder.path))
    #expect(try await file.load() == .nothing)
    let entry = Entry(number: 7, client: .max, write: 1, value: " a  b ")
    try await file.save(entry)
    #expect(try await file.load() == entry)
    let long = "7 1 1 \(String(repeating: "a", count: Entry.longestLine))\n"
    for text in ["", "7 1 1 cut off", "7 1\n", "x 1 1 a\n", "18446744073709551615 1 1 a\n", long] {
      try folder.write("entry", text.utf8)
      await #expect(throws: EntryFile.Damaged.self) { try await file.load() }
    }
    let error = await #expect(throws: SocketError.self) {
      try await EntryFile(disk: file.disk, path: "missing/entry").save(entry)
    }
    #expect(error?.code == .pathNotFound)
  }

  @Test(arguments: ["nonsense\n", "put 1 1\n", "put 18446744073709551615 1 1 a\n", String(repeating: "x", count: 2000)])
  func `A replica ends a connection with other lines, and keeps its entry`(line: String) async throws {
    try await within("the connection ends") {
      let folder = try Folder()
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let replica = try await Replica(on: LinuxDisk(directory: folder.path))
      let serving = Task { try await serve(replica, on: listener) }
      let connection = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
      try await connection.write(utf8: "put 1 2 3 hello\nget\n")
      for _ in 1...2 { #expect(try await connection.read(.line()) == "1 2 3 hello") }
      try await connection.write(utf8: line)
      let error = await #expect(throws: SocketError.self) { try await connection.read(exactly: 1) }
      #expect(error?.isCausedByPeer == true)
      let other = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
      // An older entry changes nothing.
      try await other.write(utf8: "put 1 1 9 older\n")
      #expect(try await other.read(.line()) == "1 2 3 hello")
      await other.close()
      await listener.drain(within: .seconds(20))
      #expect(try await serving.value.failedByPeer == 1)
    }
  }
}
