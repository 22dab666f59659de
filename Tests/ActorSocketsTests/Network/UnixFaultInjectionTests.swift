import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct UnixFaultInjectionTests {
  @Test func `A listener's file is one of the kernel: it has permissions, replaces a stale one, and is removed`()
    async throws
  {
    try await within("the connection is accepted") {
      let folder = try SocketFolder()
      try RawSocket.bound(to: folder()).close()
      let injection = try FaultInjection(FaultInjection.shortTransfers)
      var configuration = TCPListener.Configuration()
      configuration.permissions = 0o640
      let listener = try TCPListener.bind(
        to: .unix(path: folder()), configuration: configuration, reactor: injection.reactor)
      #expect(FileFacts(folder())?.permissions == 0o640)
      let client = try RawSocket.connected(to: .unix(UnixPath(parsing: folder())))
      let server = try await listener.accept()
      #expect(await listener.waitingConnections() == [0])
      try client.send("hello")
      #expect(try await server.read(exactly: 5) == Array("hello".utf8))
      await listener.close()
      #expect(folder.names == [])
    }
  }

  @Test func `A fault of connect does not let a listener or an endpoint take the path of a live server`() async throws {
    try await within("the connection is accepted") {
      let folder = try SocketFolder()
      let target = Endpoint.unix(path: folder())
      let live = try TCPListener.bind(to: target)
      let refusal = CallFault.ErrorNumber(rawValue: ECONNREFUSED)
      let injection = try FaultInjection([.fail(.connect, with: refusal, probability: 1)])
      await expectError(.addressInUse) { _ = try TCPListener.bind(to: target, reactor: injection.reactor) }
      await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: target, reactor: injection.reactor) }
      let client = try await TCPConnection.connect(to: target)
      await (try live.accept()).close()
      await client.close()
      await live.close()
    }
  }

  @Test func `Descriptors keep their places in the stream, however short the transfers are`() async throws {
    try await within("everything arrives") {
      for seed in 0..<seeds(20, atMost: 1_000) {
        let injection = try FaultInjection(FaultInjection.shortTransfers, seed: seed)
        let (client, server, _) = try await injection.pair(.unix, waitingDescriptors: 100)
        let writing = Task {
          for index in 0..<20 as Range<UInt8> {
            let ends = try pipeEnds()
            OwnedDescriptor(owning: ends.writing).writeByte(index)
            try await client.write(
              pattern(500, from: Int(index) * 500), passing: OwnedDescriptor(owning: ends.reading))
          }
        }
        for index in 0..<20 as Range<UInt8> {
          #expect(try await server.read(exactly: 500) == pattern(500, from: Int(index) * 500), "seed \(seed)")
          guard let descriptor = await server.takeDescriptor() else {
            Issue.record("no descriptor came with message \(index), seed \(seed)")
            return
          }
          #expect(descriptor.readByte() == index)
        }
        try await writing.value
        let none = await server.takeDescriptor() == nil
        #expect(none)
      }
    }
  }

  @Test func `A send of a descriptor that fails closes it, and the peer gets nothing`() async throws {
    try await injecting("the send has failed") { injection in
      let (client, server, _) = try await injection.pair(.unix, waitingDescriptors: 1)
      injection.setFaults([.fail(.send, with: .noMemory, probability: 1)])
      let ends = try pipeEnds()
      let reading = OwnedDescriptor(owning: ends.reading)
      let error = await expectError(.system) {
        try await client.write(Array("hello".utf8), passing: OwnedDescriptor(owning: ends.writing))
      }
      #expect(error.errno == CallFault.ErrorNumber.noMemory.rawValue)
      // The last writing end is closed.
      #expect(reading.readByte() == nil)
      await client.abort()
      #expect(try await server.read() == nil)
      let none = await server.takeDescriptor() == nil
      #expect(none)
    }
  }
}
