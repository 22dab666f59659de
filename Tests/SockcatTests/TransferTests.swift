import Foundation
import TestSupport
import Testing

/// 100 MB that no two parts of are alike.
private let sample: URL? = {
  let url = FileManager.default.temporaryDirectory.appendingPathComponent("sockcat-sample-\(getpid())")
  try? Data().write(to: url)
  guard let source = FileHandle(forReadingAtPath: "/dev/urandom"), let sink = FileHandle(forWritingAtPath: url.path)
  else { return nil }
  for _ in 0..<100 {
    guard let part = try? source.read(upToCount: 1_000_000) else { return nil }
    sink.write(part)
  }
  atexit { sampleIsDone() }
  return url
}()

private func sampleIsDone() { if let sample { try? FileManager.default.removeItem(at: sample) } }

private func digest(of file: URL) async throws -> Substring {
  let program = try await Program(.sha256sum, [file.path])
  try await program.exitStatus()
  return await program.output.whole.prefix(64)
}

@Suite(.needs(.socat)) struct TransferTests {
  @Test(arguments: Family.allCases, ["pool", "reactor"])
  func `100 MB come back from an echo as they were sent`(family: Family, place: String) async throws {
    let folder = try Folder()
    let sample = try #require(sample)
    let endpoint = family.freeEndpoint(in: folder)
    let (server, address) = try await Program.listening([endpoint, "--echo", "--once", "--on", place])
    let client = try await Program(
      .socat, ["-b", "65536", "-t", "20", "-", family.socat(address)], input: .file(sample),
      outputTo: folder.file("back"))
    try await expectSuccess(client, server)
    #expect(try await digest(of: folder.file("back")) == digest(of: sample))
    #expect(await server.errors.lines.count == 1)
  }

  @Test(arguments: Family.allCases)
  func `100 MB go each way at once through a connection made`(family: Family) async throws {
    let folder = try Folder()
    let sample = try #require(sample)
    let (server, endpoint) = try await Program.socatListening(
      family, in: folder, "-", input: .file(sample), outputTo: folder.file("there"))
    let client = try await Program(
      .sockcat, ["connect", endpoint], input: .file(sample), outputTo: folder.file("here"))
    try await expectSuccess(client, server)
    let sent = try await digest(of: sample)
    #expect(try await digest(of: folder.file("there")) == sent)
    #expect(try await digest(of: folder.file("here")) == sent)
    #expect(await client.errors.whole == "")
  }

  @Test(arguments: Family.allCases)
  func `The end of input reaches a peer that answers only then`(family: Family) async throws {
    let folder = try Folder()
    let (server, endpoint) = try await Program.socatListening(family, in: folder, "EXEC:sha256sum")
    let client = try await Program(.sockcat, ["connect", endpoint], input: .pipe)
    try await client.send("hello")
    try await client.finishInput()
    try await client.waitForOutput("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    try await expectSuccess(client, server)
  }

  @Test(arguments: Family.allCases)
  func `A peer that has finished can still be written to`(family: Family) async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([family.freeEndpoint(in: folder)], input: .pipe)
    let client = try await Program(.socat, ["-t", "20", "-", family.socat(address)], input: .pipe)
    try await client.send("question")
    try await client.finishInput()
    try await server.waitForOutput("question")
    try await server.send("answer")
    try await client.waitForOutput("answer")
    try await server.finish()
    #expect(try await client.exitStatus() == 0)
    #expect(await server.output.whole == "question")
  }

  @Test(.needs(.ncat))
  func `ncat gets its echo too`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--once"])
    let client = try await Program(.ncat, address.split(separator: ":").map(String.init), input: .pipe)
    try await client.echo("hello\n")
    #expect(try await server.exitStatus() == 0)
  }

  @Test func `A server that discards its input sends no answer`() async throws {
    let sample = try #require(sample)
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--discard", "--once"])
    let client = try await Program(
      .socat, ["-b", "65536", "-t", "20", "-", Family.ipv4.socat(address)], input: .file(sample))
    try await expectSuccess(client, server)
    #expect(await client.output.whole == "")
  }
}
