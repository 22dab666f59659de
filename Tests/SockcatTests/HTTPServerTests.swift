import Foundation
import TestSupport
import Testing

struct HTTPServerTests {
  @Test(.needs(.curl), arguments: [Family.ipv4, .ipv6], ["pool", "reactor"])
  func `curl gets 200 twice over one connection`(family: Family, place: String) async throws {
    let (server, address) = try await Program.listening([family.freeEndpoint(in: Folder()), "--http", "--on", place])
    let url = "http://\(address)/a/path?and=more"
    let client = try await Program(
      .curl, ["-s", "-g", "-w", "[%{http_code} %{num_connects}]", "--max-time", "10", url, url])
    #expect(try await client.exitStatus() == 0)
    let page = "It works: this is sockcat.\n"
    #expect(await client.output.whole == "\(page)[200 1]\(page)[200 0]")
    try await server.stopQuietly()
  }

  @Test(.needs(.curl))
  func `curl is told what it may not do`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http"])
    for (arguments, status) in [(["-d", "a=b"], "405"), (["-X", "DELETE"], "405"), (["-I"], "200"), (["-0"], "200")] {
      let client = try await Program(
        .curl, ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10"] + arguments + ["http://\(address)/"])
      #expect(try await client.exitStatus() == 0)
      #expect(await client.output.whole == status)
    }
    try await server.stopQuietly()
  }

  @Test(.needs(.socat))
  func `Requests that come at once are answered in order`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http"])
    let requests = """
      GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
      DELETE /2 HTTP/1.1\r\nHost: a\r\n\r\n\
      HEAD /3 HTTP/1.1\r\nHost: a\r\n\r\n\
      GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
      """
    let text = try await answer(to: requests, address)
    let statuses = text.matches(of: #/HTTP/1\.1 (\d+) /#).map { String($0.1) }
    #expect(statuses == ["200", "405", "200", "200"])
    #expect(text.ranges(of: "Connection: close").count == 1)
    try await server.stopQuietly()
  }

  @Test(
    .needs(.socat),
    arguments: [
      ("nonsense\r\n\r\n", "400 "), ("GET / HTTP/1.1\r\n\r\n", "400 "), ("GET / HTTP/3.0\r\n\r\n", "505 "),
      ("GET / HTTP/1.1\r\nHost: a\r\n", "400 "),
    ])
  func `A bad request is answered and the connection closed`(request: String, status: String) async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http", "--once"])
    let text = try await answer(to: request, address)
    #expect(text.hasPrefix("HTTP/1.1 " + status))
    #expect(text.contains("\r\nConnection: close\r\n"))
    #expect(try await server.exitStatus() == 0)
  }

  @Test(.needs(.socat))
  func `A head that is too large is refused`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http", "--once"])
    let large = String(repeating: "x", count: 20_000)
    let text = try await answer(to: "GET / HTTP/1.1\r\nHost: a\r\nX: \(large)\r\n\r\n", address)
    #expect(text.hasPrefix("HTTP/1.1 431 "))
    #expect(try await server.exitStatus() == 0)
  }

  @Test(.needs(.wrk), arguments: ["pool", "reactor"])
  func `wrk finds no error in a second`(place: String) async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http", "--on", place])
    let load = try await Program(.wrk, ["-d", "1", "-t", "1", "-c", "64", "http://\(address)/"])
    #expect(try await load.exitStatus() == 0)
    let report = await load.output.whole
    #expect(!report.contains("Socket errors"))
    #expect(!report.contains("Non-2xx"))
    let requests = report.firstMatch(of: /(\d+) requests in/).flatMap { Int($0.1) } ?? 0
    #expect(requests > 64)
    try await server.stopQuietly()
  }

  @Test(.needs(.socat))
  func `A server that stops closes connections that wait for a request`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--http"])
    let client = try await Program(.socat, ["-t", "20", "-", Family.ipv4.socat(address)], input: .pipe)
    try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    try await client.waitForOutput("It works")
    let start = ContinuousClock.now
    await server.kill(SIGTERM)
    // socat leaves when its own input has ended, too.
    try await client.finishInput()
    #expect(try await server.exitStatus() == 0)
    #expect(start.duration(to: .now) < .seconds(10))
    #expect(try await client.exitStatus() == 0)
    #expect(await server.errors.lines.count == 1)
  }

  private func answer(to request: String, _ address: String) async throws -> String {
    let client = try await Program(.socat, ["-t", "20", "-", Family.ipv4.socat(address)], input: .pipe)
    try await client.send(request)
    try await client.finish()
    return await client.output.whole
  }
}
