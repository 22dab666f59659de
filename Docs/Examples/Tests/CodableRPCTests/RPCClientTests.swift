import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import CodableRPC

/// The client, with servers that keep to the protocol.
@Suite struct RPCClientTests {
  /// Starts the server in Python.
  private func startPython(port: UInt16 = 0, mode: String = "all") async throws -> (Program, SocketAddress) {
    let program = try Program(.python, [Tool.script("server.py"), "\(port)", mode])
    try await program.waitForOutput("\n")
    let line = try #require(await program.output.text.firstMatch(of: /listening on (\d+)/))
    return (program, .ipv4(.loopback, port: try #require(UInt16(line.1))))
  }

  @Test(.needs(.python)) func `Each task gets its own answer from a server in Python`() async throws {
    try await within("the answers are there") {
      let (program, address) = try await startPython()
      let client = RPCClient.patient(address)
      try await withThrowingTaskGroup { group in
        for number in 1...20 {
          group.addTask {
            let text = try await client.call(.hold, "text \(number)")
            #expect(text == "text \(number)")
          }
        }
        try await program.waitForOutput("holding 20\n")
        // The server answers the calls that it holds, the last one first.
        #expect(try await client.call(.release, "all") == "all")
        try await group.waitForAll()
      }
      let refused = await #expect(throws: RPCFailure.self) { try await client.call(.refuse, "x") }
      #expect(refused == RPCFailure(.init("noMoney"), "you have 3 €"))
      await client.close()
      await #expect(throws: SocketError.self) { try await client.call(.echo, "x") }
      #expect(await program.output.text.components(separatedBy: "connected").count == 2)
      await program.stopNow()
    }
  }

  @Test(.needs(.python)) func `The server learns of deadlines, and of calls that are no longer wanted`() async throws {
    try await within("the server has learned of them") {
      let (program, address) = try await startPython()
      let client = RPCClient.patient(address)
      let left = try await client.call(.deadline, "x", timeout: .seconds(50))
      #expect(left > 20_000 && left <= 50_000)
      let cancelled = Task { try await client.call(.forever, "x") }
      try await program.waitForOutput("running 2\n")
      cancelled.cancel()
      await #expect(throws: CancellationError.self) { try await cancelled.value }
      try await program.waitForOutput("cancelled 2\n")
      let late = await #expect(throws: RPCFailure.self) {
        try await client.call(.forever, "x", timeout: .milliseconds(200))
      }
      #expect(late?.code == .timedOut)
      try await program.waitForOutput("cancelled 3\n")
      #expect(try await client.call(.echo, "b") == "b")
      await client.close()
      await program.stopNow()
    }
  }

  @Test(.needs(.python)) func `A server that dies fails its calls, except those that may be repeated`() async throws {
    try await within("the calls have an outcome") {
      let (first, address) = try await startPython(mode: "first")
      let client = RPCClient.patient(address)
      let once = Task { try await client.call(.forever, "x") }
      try await first.waitForOutput("running 1\n")
      let again = Task { try await client.call(.pause, "y") }
      try await first.waitForOutput("running 2\n")
      let died = await #expect(throws: SocketError.self) { try await client.call(.die, "x") }
      #expect(died?.isCausedByPeer == true)
      await #expect(throws: SocketError.self) { try await once.value }
      #expect(try await first.exitStatus() == 9)
      let (second, _) = try await startPython(port: try #require(address.port))
      #expect(try await again.value == "y")
      #expect(try await client.call(.echo, "z") == "z")
      await client.close()
      await second.stopNow()
    }
  }

  @Test func `A thousand calls share a connection whose server takes eight at a time`() async throws {
    try await within("the answers are there") {
      let server = try RunningServer { $0.calls = 8 }
      let client = server.client()
      try await withThrowingTaskGroup { group in
        for number in 1...1000 {
          group.addTask {
            let text = try await client.call(.echo, "\(number)")
            let sum = try await client.call(.sum, [Double(number), 0.5])
            #expect(text == "\(number)" && sum == Double(number) + 0.5)
          }
        }
        for _ in 1...20 { group.addTask { _ = try await client.call(.gate, "x") } }
        await server.gated.wait(running: 8)
        await server.gated.open()
        try await group.waitForAll()
      }
      #expect(await server.gated.most == 8)
      await client.close()
      #expect(try await server.stop().accepted == 1)
    }
  }

  @Test func `A call that waits for its turn can be cancelled, and its turn goes to the next one`() async throws {
    try await within("the calls have an outcome") {
      let server = try RunningServer { $0.calls = 1 }
      let client = server.client()
      let first = Task { try await client.call(.gate, "first") }
      await server.gated.wait(running: 1)
      let second = Task { try await client.call(.gate, "second") }
      let third = Task { try await client.call(.echo, "third") }
      second.cancel()
      await #expect(throws: CancellationError.self) { try await second.value }
      let late = await #expect(throws: RPCFailure.self) {
        try await client.call(.echo, "x", timeout: .milliseconds(50))
      }
      #expect(late?.code == .timedOut)
      first.cancel()
      await #expect(throws: CancellationError.self) { try await first.value }
      #expect(try await third.value == "third")
      #expect(await server.gated.most == 1)
      await client.close()
      #expect(try await server.stop().finished == 1)
    }
  }

  @Test func `A server that stops finishes its calls, and new ones go to the next server`() async throws {
    try await within("the calls have an outcome") {
      let first = try RunningServer()
      let client = first.client()
      let running = Task { try await client.call(.gate, "first") }
      await first.gated.wait(running: 1)
      let stopping = Task { try await first.stop() }
      let second = try await next(after: first)
      #expect(try await client.call(.gate, "second") == "second")
      #expect(await first.gated.running == 1)
      await first.gated.open()
      #expect(try await running.value == "first")
      let report = try await stopping.value
      #expect(report.accepted == 1 && report.finished == 1)
      await client.close()
      #expect(try await second.stop().accepted == 1)
    }
  }

  /// Starts a server on the address of another one, as soon as that has closed its listener. Its gate is open.
  private func next(after old: RunningServer) async throws -> RunningServer {
    while true {
      do {
        let server = try RunningServer(on: .address(old.address))
        await server.gated.open()
        return server
      } catch SocketError.Code.addressInUse {
        await Task.yield()
      }
    }
  }
}

extension Program {
  /// Kills the program, which never ends by itself.
  func stopNow() async {
    kill(SIGKILL)
    _ = await output.whole
  }
}
