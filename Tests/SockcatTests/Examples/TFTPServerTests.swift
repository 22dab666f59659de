import ActorSockets
import Foundation
import TestSupport
import Testing

@Suite(.needs(.curl))
struct TFTPServerTests {
  /// Serves while curl fetches a file.
  ///
  /// - Returns: curl's exit status, and what it has got.
  private func fetch(
    _ name: String, from files: [String: [UInt8]], host: String = "127.0.0.1",
    _ change: (inout TFTPServer) -> Void = { _ in }
  ) async throws -> (status: Int32, bytes: [UInt8]?) {
    var server = TFTPServer(files: files)
    change(&server)
    let endpoint = try UDPEndpoint.bind(to: .host(host, port: 0))
    async let serving: Void = server.serve(endpoint)
    let folder = try Folder()
    let file = folder.file("fetched")
    let address = endpoint.localAddresses[0]
    let curl = try await Program(.curl, ["--silent", "--globoff", "--output", file.path, "tftp://\(address)/\(name)"])
    let status = try await curl.exitStatus()
    await endpoint.close()
    try await serving
    return (status, (try? Data(contentsOf: file)).map { Array($0) })
  }

  private func bytes(_ count: Int) -> [UInt8] {
    var random = SeededRandom(seed: UInt64(count))
    return (0..<count).map { _ in .random(in: .min ... .max, using: &random) }
  }

  @Test(.needs(.sha256sum), arguments: ["127.0.0.1", "::1"])
  func `curl fetches a megabyte, with an equal checksum`(host: String) async throws {
    let file = bytes(1 << 20)
    let (status, fetched) = try await fetch(
      "big file".replacing(" ", with: "%20"), from: ["big file": file], host: host)
    #expect(status == 0)
    let folder = try Folder()
    var sums: [String] = []
    for (name, bytes) in [("sent", file), ("fetched", try #require(fetched))] {
      try Data(bytes).write(to: folder.file(name))
      let sum = try await Program(.sha256sum, [folder.file(name).path])
      #expect(try await sum.exitStatus() == 0)
      sums.append(String(await sum.output.whole.prefix(64)))
    }
    #expect(sums[0] == sums[1] && sums[0].count == 64)
  }

  @Test(arguments: [0, 1, 511, 512, 513, 1024])
  func `A file ends with a short block, even an empty one`(count: Int) async throws {
    let (status, fetched) = try await fetch("file", from: ["file": bytes(count)])
    #expect(status == 0)
    #expect(fetched ?? [] == bytes(count))
  }

  @Test
  func `Blocks that are lost are sent again`() async throws {
    let (status, fetched) = try await fetch("file", from: ["file": bytes(20_000)]) { server in
      server.patience = .milliseconds(20)
      server.attempts = 100
      server.configuration.sendFilter = losing(every: 4)
    }
    #expect(status == 0)
    #expect(fetched == bytes(20_000))
  }

  @Test
  func `A file that is not there is refused`() async throws {
    let (status, _) = try await fetch("nothing", from: [:])
    // CURLE_TFTP_NOTFOUND
    #expect(status == 68)
  }
}
