import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Faults of the system calls of simulated hosts.
@Suite struct CallFaultTests {
  private static let server = UppercaseEcho.server

  @Test(arguments: [
    (CallFault.fail(.socket, with: .tooManyOpenFiles, probability: 1), SocketError.Code.tooManyOpenFiles),
    (.fail(.socket, with: .noBufferSpace, probability: 1), .system),
    (.fail(.connect, with: .networkUnreachable, probability: 1), .unreachable),
    (.fail(.connect, with: .addressNotAvailable, probability: 1), .addressNotAvailable),
  ])
  func `A call that fails shows the error that Linux would show`(fault: CallFault, code: SocketError.Code) async throws
  {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        simulation.host("server").start(Self.server)
        let client = simulation.host("client")
        client.setFaults([fault])
        try await client.run {
          _ = await expectError(code) { _ = try await UppercaseEcho.connected() }
        }
        client.setFaults([])
        try await client.run { try await UppercaseEcho.client(1) }
      }
    }
  }

  @Test(arguments: [
    (CallFault.fail(.bind, with: .addressNotAvailable, probability: 1), SocketError.Code.addressNotAvailable),
    (.fail(.listen, with: .noMemory, probability: 1), .system),
  ])
  func `A listener that cannot be made says why`(fault: CallFault, code: SocketError.Code) async throws {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        let server = simulation.host("server")
        server.setFaults([fault])
        _ = try await server.run {
          let error = #expect(throws: SocketError.self) { try TCPListener.bind(to: .port(80)) }
          #expect(error?.code == code)
        }
      }
    }
  }

  @Test(arguments: [CallFault.Call.send, .receive])
  func `A transfer that fails ends its connection, and no other`(call: CallFault.Call) async throws {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        simulation.host("server").start(Self.server)
        let client = simulation.host("client")
        try await client.run {
          let (one, other) = try await (UppercaseEcho.connected(), UppercaseEcho.connected())
          client.setFaults([.fail(call, with: .noBufferSpace, probability: 1)])
          await expectError(.system) {
            try await one.write(utf8: "lost\n")
            _ = try await one.read(until: .lf)
          }
          client.setFaults([])
          try await other.write(utf8: "kept\n")
          #expect(try await other.read(until: .lf) == Array("KEPT\n".utf8))
        }
      }
    }
  }

  @Test(arguments: [
    CallFault.ErrorNumber.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noBufferSpace, .noMemory, .connectionAborted,
  ])
  func `A server survives failures of accept, and serves everybody in the end`(error: CallFault.ErrorNumber)
    async throws
  {
    try await within("the simulations are over") {
      for seed in 0..<5 as Range<UInt64> {
        let simulation = Simulation(seed: seed)
        try await simulation.run {
          let server = simulation.host("server")
          server.start(Self.server)
          server.setFaults([.fail(.accept, with: error, probability: 0.7)])
          try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<5 { group.addTask { try await UppercaseEcho.client(2) } }
            try await group.waitForAll()
          }
        }
      }
    }
  }

  @Test func `Short transfers and events that tell of nothing lose no byte`() async throws {
    try await within("the simulations are over") {
      for seed in 0..<20 as Range<UInt64> {
        let simulation = Simulation(seed: seed, order: .random)
        try await simulation.run {
          simulation.defaultLink.loss = 0.01
          let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
          for name in ["main", "server"] {
            simulation.host(name).setFaults([
              .shortReads(probability: 0.5), .shortWrites(probability: 0.5), .spuriousReadiness(probability: 0.3),
            ])
          }
          let client = try await TCPConnection.connect(to: .host("server", port: 80))
          let server = try await listener.accept()
          let bytes = pattern(200_000)
          let writing = Task {
            try await client.write(bytes)
            try await client.finishWriting()
          }
          #expect(try await server.readToEnd() == bytes, "seed \(seed)")
          try await writing.value
        }
      }
    }
  }
}
