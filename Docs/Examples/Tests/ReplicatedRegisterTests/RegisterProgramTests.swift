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

  private func start(_ file: String, at place: String = "127.0.0.1:0") async throws -> Process {
    let program = try Program(.register, ["replica", file, place])
    try await program.waitForOutput("\n")
    let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
    return Process(program: program, place: String(line.1))
  }

  private func run(_ words: String...) async throws -> String { try await Program.run(.register, words) }

  @Test(.needs(.register)) func `A value survives replicas that are killed, one after the other`() async throws {
    try await within("the value is read") {
      let folder = try Folder()
      let files = (1...3).map { folder.file("replica\($0)") }
      var replicas: [Process] = []
      for file in files { replicas.append(try await start(file)) }
      let places = replicas.map(\.place)
      #expect(try await Program.run(.register, ["read"] + places) == "(nothing)\n")
      #expect(try await Program.run(.register, ["write", "first value"] + places) == "")
      #expect(try await Program.run(.register, ["read"] + places) == "first value\n")

      await replicas[0].program.kill(SIGKILL)
      #expect(try await Program.run(.register, ["write", "second"] + places) == "")
      await replicas[1].program.kill(SIGKILL)
      // The first one has missed the second value, so the answer needs its write and the disk of the second one.
      replicas[0] = try await start(files[0], at: places[0])
      replicas[1] = try await start(files[1], at: places[1])
      await replicas[2].program.kill(SIGKILL)
      #expect(try await Program.run(.register, ["read"] + places) == "second\n")

      for replica in replicas.prefix(2) {
        await replica.program.kill(SIGTERM)
        #expect(try await replica.program.exitStatus() == 0)
        #expect(await replica.program.output.whole.contains("stopped after "))
      }
      for file in files.prefix(2) {
        #expect(try FileStore(path: file).load().value == "second")
      }
    }
  }

  @Test(.needs(.register)) func `Without a majority the program says so`() async throws {
    try await within("the program ends") {
      let folder = try Folder()
      let replica = try await start(folder.file("replica"))
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

  @Test func `A file that is damaged stops a replica, and a missing one does not`() throws {
    let folder = try Folder()
    let store = FileStore(path: folder.file("entry"))
    #expect(try store.load() == .nothing)
    let entry = Entry(number: 7, client: .max, write: 1, value: " a  b ")
    try store.save(entry)
    #expect(try store.load() == entry)
    for text in ["", "7 1 1 cut off", "7 1\n", "x 1 1 a\n", "18446744073709551615 1 1 a\n"] {
      try folder.write("entry", text.utf8)
      #expect(throws: FileStore.Damaged.self) { try store.load() }
    }
    #expect(throws: CocoaError.self) { try FileStore(path: folder.file("missing/entry")).save(entry) }
  }

  @Test(arguments: ["nonsense\n", "put 1 1\n", "put 18446744073709551615 1 1 a\n", String(repeating: "x", count: 2000)])
  func `A replica ends a connection with other lines, and keeps its entry`(line: String) async throws {
    try await within("the connection ends") {
      let folder = try Folder()
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task { try await serve(Replica(FileStore(path: folder.file("entry"))), on: listener) }
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
