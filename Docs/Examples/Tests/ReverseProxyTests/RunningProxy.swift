import ActorSocketsTLS
import ExampleSupport
import Foundation
import Synchronization

@testable import ReverseProxy

extension Tool {
  static let bash = Tool("bash")
  static let reverseProxy = Tool(example: "ReverseProxy")
}

/// A certificate authority, and the certificates that it has issued.
struct Authority: Sendable {
  static let sites = ["one.test", "two.test", "localhost"]
  /// One for all tests, which only read its files.
  static let shared = Task { try await Authority() }

  let folder: Folder

  init() async throws {
    folder = try Folder()
    _ = try await Program.run(
      .openssl,
      Self.key + ["-subj", "/CN=Test Authority", "-keyout", folder.file("ca.key"), "-out", folder.file("ca.pem")])
    for site in Self.sites { try await issue(site, as: site) }
  }

  /// Issues a certificate for a name, in the files `FILE.pem` and `FILE.key`.
  func issue(_ name: String, as file: String) async throws {
    _ = try await Program.run(
      .openssl,
      Self.key + [
        "-CA", folder.file("ca.pem"), "-CAkey", folder.file("ca.key"), "-subj", "/CN=\(name)", "-addext",
        "subjectAltName=DNS:\(name)", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout",
        folder.file("\(file).key"),
        "-out", folder.file("\(file).pem"),
      ])
  }

  private static let key = [
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
  ]

  /// The lines of the settings for a site.
  func settings(_ site: String, _ origins: [any CustomStringConvertible], check: String? = nil) -> String {
    let lines = ["site \(site) \(folder.file(site + ".pem")) \(folder.file(site + ".key"))"]
    return (lines + origins.map { "origin \($0)" } + (check.map { ["check \($0)"] } ?? [])).joined(separator: "\n")
      + "\n"
  }

  /// The settings of clients that trust the authority.
  func clientContext() throws -> TLSContext {
    try TLSContext(TLSConfiguration(trustRoots: [.file(folder.file("ca.pem"))]))
  }
}

/// A client of a proxy that listens on 127.0.0.1.
struct Client: Sendable {
  let authority: Authority
  let address: SocketAddress

  func url(_ path: String = "/", site: String = "one.test") -> String { "https://\(site):\(address.port ?? 0)\(path)" }

  /// The arguments of curl for any request.
  var options: [String] {
    ["--silent", "--show-error", "--max-time", "30", "--cacert", authority.folder.file("ca.pem")]
      + (Authority.sites + ["unknown.test"]).flatMap { ["--resolve", "\($0):\(address.port ?? 0):127.0.0.1"] }
  }

  /// Runs curl, which prints the answer.
  func curl(_ arguments: String...) async throws -> String { try await Program.run(.curl, options + arguments) }

  /// Runs curl, and returns the status of the answer.
  func status(_ arguments: String...) async throws -> String {
    try await Program.run(.curl, options + ["--output", "/dev/null", "--write-out", "%{http_code}"] + arguments)
  }

  func connect(to site: String = "one.test") async throws -> TLSConnection {
    try await TLSConnection.connect(
      to: .address(address), context: try authority.clientContext(), serverName: site, timeout: .seconds(20))
  }

  /// Sends bytes on a new connection, and returns everything that the proxy sends until it ends the connection.
  func answer(to request: String) async throws -> String {
    let connection = try await connect()
    try await connection.write(utf8: request)
    var answer: [UInt8] = []
    while try await connection.read(into: &answer) > 0 {}
    await connection.close()
    return String(decoding: answer, as: UTF8.self)
  }
}

/// A proxy in this process, with the origins of a test.
struct RunningProxy: Sendable {
  let client: Client
  let service: ProxyService
  let lines = ProxyLog()
  private let listener: TCPListener
  private let serving: Task<(accepted: Int, aborted: Int), any Error>

  /// - Parameters:
  ///   - origins: The origins of the site `one.test`.
  ///   - others: The origins of the site `two.test`.
  ///   - check: The path of the page for checks.
  ///   - change: Changes the limits.
  /// - Throws: An error if a certificate or a listener cannot be made.
  init(
    _ origins: [any CustomStringConvertible], others: [any CustomStringConvertible] = [], check: String? = nil,
    _ change: (inout ReverseProxy.Limits) -> Void = { _ in }
  ) async throws {
    let authority = try await Authority.shared.value
    var text = authority.settings("one.test", origins, check: check)
    if !others.isEmpty { text += authority.settings("two.test", others) }
    var limits = ReverseProxy.Limits()
    change(&limits)
    service = try ProxyService(ProxySettings(parsing: text), limits: limits) { [lines] in lines.add($0) }
    listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), configuration: service.listenerConfiguration)
    client = Client(authority: authority, address: listener.localAddresses[0])
    let reloads = try ProcessSignals([.user2])
    serving = Task { [service, listener] in try await service.run(on: [listener], reloads: reloads) }
  }

  func stop() async throws -> (accepted: Int, aborted: Int) {
    await listener.drain(within: .seconds(30))
    return try await serving.value
  }
}

/// The lines of a proxy's log.
final class ProxyLog: Sendable {
  private let state = Mutex<(lines: [String], waiters: [(String, Gate)])>(([], []))

  func add(_ line: String) {
    state.withLock { state in
      state.lines.append(line)
      for (text, gate) in state.waiters where line.contains(text) { gate.open() }
    }
  }

  /// Waits until a line contains a text.
  func wait(for text: String) async {
    let gate = Gate()
    state.withLock { state in
      if state.lines.contains(where: { $0.contains(text) }) { gate.open() } else { state.waiters.append((text, gate)) }
    }
    await gate.wait()
  }
}
