import ActorSockets
import Foundation
import TestSupport
import Testing

@Suite(.needs(.microsocks), .needs(.tinyproxy)) struct ThroughProxyTests {
  typealias Kind = ProxyProgram.Kind

  /// Runs sockcat with a password in its environment.
  private func sockcat(_ arguments: [String], password: String) async throws -> Program {
    try await Program(
      .env, ["SOCKCAT_PROXY_PASSWORD=\(password)", Tool.sockcat.url.path] + arguments, input: .pipe)
  }

  @Test(arguments: Kind.allCases)
  func `A proxy connects, with the password from the URL or from the environment`(kind: Kind) async throws {
    let proxy = try await ProxyProgram(kind, login: ("me", kind.password))
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"])
    for (user, password) in [("me", kind.password), ("me:\(kind.encodedPassword)", "wrong")] {
      let url = "\(kind)://\(user)@127.0.0.1:\(proxy.port)"
      let client = try await sockcat(["connect", address, "-v", "--proxy", url], password: password)
      try await client.echo()
      #expect(
        await client.errors.whole == "sockcat: \(address): connected, through 127.0.0.1:\(proxy.port)\n")
    }
    try await server.stop()
    await proxy.program.kill(SIGKILL)
  }

  @Test(arguments: Kind.allCases)
  func `A proxy that refuses is a failure of input and output, and the password is not shown`(kind: Kind) async throws {
    let proxy = try await ProxyProgram(kind, login: ("me", kind.password))
    let endpoint = "127.0.0.1:\(proxy.port)"
    let target = "127.0.0.1:\(try freePort())"
    // The proxy's own words: of the user, and then of the target, where no process listens.
    let reasons = kind == .socks5 ? ["refused the name and password", "could not connect"] : [" 401 ", " 500 "]
    for (user, reason) in zip(["me:mistaken", "me:\(kind.encodedPassword)"], reasons) {
      let client = try await Program(.sockcat, ["connect", target, "--proxy", "\(kind)://\(user)@\(endpoint)"])
      #expect(try await client.exitStatus() == 1)
      let lines = await client.errors.lines
      #expect(lines.count == 1 && lines.first?.contains(" proxy ") == true, "\(lines)")
      #expect(lines.first?.contains(reason) == true, "\(lines)")
      #expect(lines.first?.contains("mistaken") == false && lines.first?.contains(kind.password + "@") == false)
    }
    await proxy.program.kill(SIGKILL)
  }

  @Test func `A user without a password is an error of usage`() async throws {
    let client = try await Program(
      .env, ["-u", "SOCKCAT_PROXY_PASSWORD", Tool.sockcat.url.path, "connect", "a:1", "--proxy", "socks5://me@b:1"])
    #expect(try await client.exitStatus() == 2)
    #expect(await client.errors.whole.hasPrefix("sockcat: --proxy has a user but no password"))
  }

  @Test(arguments: Kind.allCases)
  func `sockcat proxy reaches its target through a proxy`(kind: Kind) async throws {
    let proxy = try await ProxyProgram(kind, login: ("me", kind.password))
    let (server, target) = try await Program.listening(["127.0.0.1:0", "--echo"])
    let url = "\(kind)://me:\(kind.encodedPassword)@127.0.0.1:\(proxy.port)"
    let (forwarder, address) = try await Program.proxying(["127.0.0.1:0", target, "--proxy", url])
    try await Program.expectEcho(at: address)
    // Without the proxy, nothing is forwarded any more.
    await proxy.program.kill(SIGKILL)
    _ = try? await proxy.program.exitStatus()
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    #expect(try await client.exitStatus() == 1)
    try await forwarder.waitForError("127.0.0.1:\(proxy.port)")
    for program in [forwarder, server] { try await program.stop() }
  }
}

extension ProxyProgram.Kind {
  /// The password, as it is and encoded. That of tinyproxy is in a file with a syntax of its own.
  fileprivate var password: String { self == .socks5 ? "p@s/s:%" : "password" }
  fileprivate var encodedPassword: String { self == .socks5 ? "p%40s%2fs:%25" : "password" }
}
