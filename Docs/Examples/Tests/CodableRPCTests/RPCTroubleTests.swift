import ActorSockets
import ExampleSupport
import Testing

@testable import CodableRPC

/// What the client does with servers that do not keep to the protocol.
@Suite struct RPCTroubleTests {
  /// A server that the test plays, and a client for it.
  private func stage(
    _ change: (inout RPCClient.Configuration) -> Void = { _ in }
  ) throws -> (TCPListener, RPCClient) {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    return (listener, .patient(listener.localAddresses[0], change))
  }

  @Test(
    arguments: [
      // The length says 4 GiB.
      ([0xFF, 0xFF, 0xFF, 0xFF], .limitExceeded), ([0, 0, 0, 1, 0x7B], .invalidMessage),
      ([0, 0, 0, 0], .invalidMessage),
      // Half a message.
      ([0, 0, 0, 9, 0x7B], .timedOut),
      (bytes(#"{"head":{"answer":{"id":2}},"content":"x"}"#), .invalidMessage),
      (bytes(#"{"head":{"call":{"id":1,"method":"echo","milliseconds":1}},"content":"x"}"#), .invalidMessage),
    ] as [([UInt8], SocketError.Code)])
  func `A message that is not allowed fails the calls, and the next call has a new connection`(
    bytes: [UInt8], code: SocketError.Code
  ) async throws {
    try await within("the calls have an outcome") {
      let (listener, client) = try stage { $0.limits.message = .milliseconds(100) }
      let call = Task { try await client.call(.echo, "a") }
      let peer = try await RawPeer.server(of: listener)
      #expect(try await peer.receive()?.contains(#""id":1"#) == true)
      try await peer.connection.write(bytes)
      let error = await #expect(throws: SocketError.self) { try await call.value }
      #expect(error?.code == code)
      try await peer.waitForEnd()

      let next = Task { try await client.call(.echo, "b") }
      let other = try await RawPeer.server(of: listener)
      _ = try await other.receive()
      try await other.send(#"{"head":{"answer":{"id":1}},"content":"b"}"#)
      #expect(try await next.value == "b")
      await other.connection.close()
      await client.close()
    }
  }

  private static func bytes(_ json: String) -> [UInt8] {
    [0, 0, 0, UInt8(json.utf8.count)] + Array(json.utf8)
  }

  @Test func `A second answer to a call, and one to a call of another connection, end the connection`() async throws {
    try await within("the connection ends") {
      let (listener, client) = try stage()
      let call = Task { try await client.call(.echo, "a") }
      let peer = try await RawPeer.server(of: listener)
      _ = try await peer.receive()
      let answer = #"{"head":{"answer":{"id":1}},"content":"a"}"#
      try await peer.send(answer)
      #expect(try await call.value == "a")
      let second = Task { try await client.call(.echo, "b") }
      _ = try await peer.receive()
      try await peer.send(answer)
      let error = await #expect(throws: SocketError.self) { try await second.value }
      #expect(error?.code == .invalidMessage)
      await client.close()
    }
  }

  @Test func `A value of another type is an error of its call only`() async throws {
    try await within("the calls have an outcome") {
      let (listener, client) = try stage()
      let call = Task { try await client.call(.echo, "a") }
      let peer = try await RawPeer.server(of: listener)
      _ = try await peer.receive()
      try await peer.send(#"{"head":{"answer":{"id":1}},"content":[1]}"#)
      await #expect(throws: DecodingError.self) { try await call.value }
      let next = Task { try await client.call(.echo, "b") }
      _ = try await peer.receive()
      try await peer.send(#"{"head":{"answer":{"id":2}},"content":"b"}"#)
      #expect(try await next.value == "b")
      await peer.connection.close()
      await client.close()
    }
  }

  @Test func `A server of another version is refused`() async throws {
    try await within("the call has an outcome") {
      let (listener, client) = try stage()
      let call = Task { try await client.call(.echo, "a") }
      let peer = try await RawPeer.server(of: listener, version: 2)
      let error = await #expect(throws: RPCFailure.self) { try await call.value }
      #expect(error?.code == .version)
      try await peer.waitForEnd()
      await client.close()
    }
  }

  @Test func `An argument that is longer than the server takes is not sent`() async throws {
    try await within("the calls have an outcome") {
      let (listener, client) = try stage()
      let long = Task { try await client.call(.echo, String(repeating: "x", count: 1000)) }
      let peer = try await RawPeer.server(of: listener)
      let error = await #expect(throws: RPCFailure.self) { try await long.value }
      #expect(error?.code == .tooLong)
      let next = Task { try await client.call(.echo, "b") }
      #expect(try await peer.receive()?.contains(#""id":1"#) == true)
      try await peer.send(#"{"head":{"answer":{"id":1}},"content":"b"}"#)
      #expect(try await next.value == "b")
      await peer.connection.close()
      await client.close()
    }
  }

  @Test func `Calls behind the last one of a goodbye are sent to the next server`() async throws {
    try await within("the calls have an outcome") {
      let (listener, client) = try stage()
      let first = Task { try await client.call(.echo, "first") }
      let peer = try await RawPeer.server(of: listener)
      _ = try await peer.receive()
      let second = Task { try await client.call(.echo, "second") }
      _ = try await peer.receive()
      try await peer.send(#"{"head":{"goodbye":{"last":1}},"content":null}"#)
      let next = try await RawPeer.server(of: listener)
      let again = try #require(try await next.receive())
      #expect(again.contains(#""id":1"#) && again.contains("second"), "\(again)")
      try await next.send(#"{"head":{"answer":{"id":1}},"content":"second"}"#)
      #expect(try await second.value == "second")
      try await peer.send(#"{"head":{"answer":{"id":1}},"content":"first"}"#)
      #expect(try await first.value == "first")
      for side in [peer, next] { await side.connection.close() }
      await client.close()
    }
  }

  @Test func `A server that always says goodbye does not keep a call going`() async throws {
    try await within("the call has an outcome") {
      let (listener, client) = try stage()
      let call = Task { try await client.call(.echo, "a") }
      for _ in 1...3 {
        let peer = try await RawPeer.server(of: listener)
        _ = try await peer.receive()
        try await peer.send(#"{"head":{"goodbye":{"last":0}},"content":null}"#)
        await peer.connection.close()
      }
      let error = await #expect(throws: RPCFailure.self) { try await call.value }
      #expect(error?.code == .unavailable)
      await client.close()
    }
  }

  @Test func `A server that does not answer costs a call its time, and is told`() async throws {
    try await within("the calls have an outcome") {
      let (listener, client) = try stage()
      // No hello.
      let silent = await #expect(throws: RPCFailure.self) {
        try await client.call(.echo, "a", timeout: .milliseconds(100))
      }
      #expect(silent?.code == .timedOut)
      let peer = try await RawPeer.server(of: listener)
      let late = await #expect(throws: RPCFailure.self) {
        try await client.call(.echo, "b", timeout: .milliseconds(500 * patience))
      }
      #expect(late?.code == .timedOut)
      #expect(try await peer.receive()?.contains(#""id":1"#) == true)
      #expect(try await peer.receive() == #"{"head":{"cancel":{"id":1}},"content":null}"#)
      // An answer that is late belongs to a call that was known.
      try await peer.send(#"{"head":{"answer":{"id":1}},"content":"b"}"#)
      let next = Task { try await client.call(.echo, "c") }
      #expect(try await peer.receive()?.contains(#""id":2"#) == true)
      try await peer.send(#"{"head":{"answer":{"id":2}},"content":"c"}"#)
      #expect(try await next.value == "c")
      await peer.connection.close()
      await client.close()
    }
  }

  @Test func `A server that cannot be reached fails the calls`() async throws {
    try await within("the call has an outcome") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      await listener.close()
      let client = RPCClient.patient(listener.localAddresses[0]) { $0.retry.maximumTries = 2 }
      let error = await #expect(throws: SocketError.self) { try await client.call(.echo, "a") }
      #expect(error?.code == .connectionRefused)
      await client.close()
    }
  }
}
