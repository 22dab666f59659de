import ActorSockets
import Foundation
import TestSupport
import Testing

extension Program {
  fileprivate static func proxying(
    _ family: Family, in folder: Folder, to target: String, _ options: [String] = []
  ) async throws -> (Program, String) {
    let endpoint = family == .unix ? "unix:\(folder.file("front").path)" : family.freeEndpoint(in: folder)
    return try await proxying([endpoint, target] + options)
  }
}

/// A listener in this process, and a client that is connected to it through a proxy.
private struct Through {
  let proxy: Program
  let client: TCPConnection
  let target: TCPConnection

  init(_ options: [String] = []) async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let address: String
    (proxy, address) = try await Program.proxying(.ipv4, in: Folder(), to: "\(listener.localAddresses[0])", options)
    client = try await TCPConnection.connect(to: Endpoint(parsing: address))
    target = try await listener.accept()
  }
}

@Suite(.needs(.socat)) struct ProxyTests {
  /// One end of a transfer: socat between a connection, what feeds it and what digests what comes out of it. These are programs
  /// of their own, for what a shell leaves behind could hold the test up.
  private struct End {
    let feeder: Program
    let digester: Program
    /// How socat is told of them.
    let socat: String

    /// Sends the sample `samples` times.
    init(_ folder: Folder, _ name: String, _ sample: URL, samples: Int) async throws {
      let (input, output) = (folder.file(name + "-in").path, folder.file(name + "-out").path)
      for path in [input, output] {
        // SAFETY: the text is valid for the call.
        let made = unsafe mkfifo(path, 0o600)
        try #require(made == 0)
      }
      let files = Array(repeating: sample.path, count: samples).joined(separator: " ")
      feeder = try await Program(.bash, ["-c", "exec cat \(files) > \(input)"])
      digester = try await Program(.sha256sum, [output])
      socat = "OPEN:\(input),rdonly!!OPEN:\(output),wronly"
    }

    var digest: Substring { get async { await digester.output.whole.prefix(64) } }
  }

  @Test(.needs(.bash), arguments: zip(Family.allCases, ["pool", "reactor", "pool"]))
  func `A gigabyte goes through, both ways at once, each way to its own end`(family: Family, place: String) async throws
  {
    let folder = try Folder()
    // Of different lengths, so that one direction ends long before the other. Less under a sanitizer.
    let isSlow = ProcessInfo.processInfo.environment["ACTORSOCKETS_PATIENCE"] != nil
    let (there, back) = family == .ipv4 && !isSlow ? (6, 4) : (2, 1)
    let sample = folder.file("sample")
    let making = try await Program(.bash, ["-c", "exec head -c 100000000 /dev/urandom > \(sample.path)"])
    #expect(try await making.exitStatus() == 0)
    let far = try await End(folder, "far", sample, samples: back)
    let (server, target) = try await Program.socatListening(family, in: folder, far.socat)
    let (proxy, address) = try await Program.proxying(family, in: folder, to: target, ["--on", place])
    let near = try await End(folder, "near", sample, samples: there)
    let client = try await Program(.socat, ["-b", "65536", "-t", "20", near.socat, family.socat(address)])
    try await expectSuccess(client, server)
    for (end, samples) in [(far, there), (near, back)] {
      let files = Array(repeating: sample.path, count: samples).joined(separator: " ")
      let expected = try await Program(.bash, ["-c", "cat \(files) | sha256sum"])
      let digest = await expected.output.whole.prefix(64)
      #expect(await end.digest == digest)
      #expect(digest.count == 64)
    }
    try await proxy.stopQuietly()
  }

  @Test(arguments: Family.allCases)
  func `An answer comes back through a half-closed connection`(family: Family) async throws {
    let folder = try Folder()
    let (server, target) = try await Program.socatListening(family, in: folder, "EXEC:sha256sum")
    let (proxy, address) = try await Program.proxying(family, in: folder, to: target)
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await client.send("hello")
    try await client.finishInput()
    try await client.waitForOutput("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    try await expectSuccess(client, server)
    try await proxy.stop()
  }

  @Test func `A target that refuses ends the client, and the proxy says why and goes on`() async throws {
    let (server, target) = try await Program.listening(["127.0.0.1:0", "--echo"])
    try await server.stop()
    let (proxy, address) = try await Program.proxying(.ipv4, in: Folder(), to: target)
    for round in 1...2 {
      let client = try await Program(.sockcat, ["connect", address], input: .pipe)
      try await proxy.waitForError(
        String(repeating: "no process listens at this address (Connection refused)\n", count: 1))
      #expect(try await client.exitStatus() == 1)
      #expect(await client.errors.whole.contains("reset"))
      #expect(await proxy.errors.wait { $0.split(separator: "\n").count == 1 + round })
    }
    try await proxy.stop()
  }

  @Test(arguments: [false, true])
  func `A reset passes on, in either direction`(isOfTarget: Bool) async throws {
    let through = try await Through()
    let (breaking, other) = isOfTarget ? (through.target, through.client) : (through.client, through.target)
    try await breaking.write(utf8: "last words")
    #expect(try await other.read(exactly: 10, timeout: .seconds(20)) == Array("last words".utf8))
    await breaking.abort()
    let error = await #expect(throws: SocketError.self) { _ = try await other.read(timeout: .seconds(20)) }
    #expect(error?.code == .connectionReset)
    try await through.proxy.stop()
  }

  @Test func `A reader that is slow holds the sender back`() async throws {
    let through = try await Through()
    let total = 200_000_000
    let sent = Task { [client = through.client] in
      let piece = [UInt8](repeating: 7, count: 1_000_000)
      for _ in 0..<200 { try await client.write(piece, timeout: .seconds(20)) }
      try await client.finishWriting()
    }
    // The client can send only as much as the buffers of two connections hold.
    var before = -1
    var quietLooks = 0
    while quietLooks < 10 {
      let now = await through.client.metrics.bytesSent
      quietLooks = now == before && now > 0 ? quietLooks + 1 : 0
      before = now
      await #expect(throws: SocketError.self) { _ = try await through.client.read(timeout: .milliseconds(20)) }
    }
    #expect(before < total / 2, "\(before) bytes were sent")
    var received = 0
    while let bytes = try await through.target.read(timeout: .seconds(20)) { received += bytes.count }
    #expect(received == total)
    try await sent.value
    await through.target.close()
    try await through.proxy.stop()
  }

  @Test func `A pair that moves nothing is ended, both sides of it`() async throws {
    let through = try await Through(["--idle-timeout", "0.3"])
    #expect(try await through.target.read(timeout: .seconds(20)) == nil)
    #expect(try await through.client.read(timeout: .seconds(20)) == nil)
    await through.target.close()
    await through.client.close()
    try await through.proxy.stop()
  }

  @Test func `No more connections than wanted are served at a time`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let (proxy, address) = try await Program.proxying(
      .ipv4, in: Folder(), to: "\(listener.localAddresses[0])", ["--max-connections", "1"])
    let first = try await TCPConnection.connect(to: Endpoint(parsing: address))
    let second = try await TCPConnection.connect(to: Endpoint(parsing: address))
    try await second.write(utf8: "2")
    try await first.write(utf8: "1")
    let target = try await listener.accept()
    #expect(try await target.read(exactly: 1, timeout: .seconds(20)) == Array("1".utf8))
    async let closing: Void = first.close()
    await target.close()
    await closing
    let next = try await listener.accept()
    #expect(try await next.read(exactly: 1, timeout: .seconds(20)) == Array("2".utf8))
    async let closingToo: Void = second.close()
    await next.close()
    await closingToo
    try await proxy.stop()
  }
}
