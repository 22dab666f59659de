import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

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
    try await simulated { simulation in
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

  @Test(arguments: [
    (CallFault.fail(.bind, with: .addressNotAvailable, probability: 1), SocketError.Code.addressNotAvailable),
    (.fail(.listen, with: .noMemory, probability: 1), .system),
  ])
  func `A listener that cannot be made says why`(fault: CallFault, code: SocketError.Code) async throws {
    try await simulated { simulation in
      let server = simulation.host("server")
      server.setFaults([fault])
      _ = try await server.run {
        let error = #expect(throws: SocketError.self) { try TCPListener.bind(to: .port(80)) }
        #expect(error?.code == code)
      }
    }
  }

  @Test(arguments: [CallFault.Call.send, .receive])
  func `A transfer that fails ends its connection, and no other`(call: CallFault.Call) async throws {
    try await simulated { simulation in
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
          let server = simulation.echoHost()
          server.setFaults([.fail(.accept, with: error, probability: 0.7)])
          try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<5 { group.addTask { try await UppercaseEcho.client(2) } }
            try await group.waitForAll()
          }
        }
      }
    }
  }
}
