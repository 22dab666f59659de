import Foundation
import Testing

/// A program to run.
struct Tool: Sendable {
  let name: String
  /// The Debian package that has it.
  let package: String
  let url: URL
  let isInstalled: Bool

  /// A program from the search path, or from where the system's own are.
  init(_ name: String, package: String? = nil) {
    self.name = name
    self.package = package ?? name
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    let found = "\(path):/usr/sbin:/sbin".split(separator: ":").map {
      URL(fileURLWithPath: String($0)).appendingPathComponent(name)
    }
    .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    isInstalled = found != nil
    url = found ?? URL(fileURLWithPath: "/nonexistent/\(name)")
  }

  private init(name: String, url: URL) {
    self.name = name
    package = name
    self.url = url
    isInstalled = FileManager.default.isExecutableFile(atPath: url.path)
  }

  static let curl = Tool("curl")
  static let socat = Tool("socat")
  static let ncat = Tool("ncat")
  static let wrk = Tool("wrk")
  static let bash = Tool("bash")
  static let perl = Tool("perl")
  static let prlimit = Tool("prlimit")
  static let strace = Tool("strace")
  static let dnsmasq = Tool("dnsmasq", package: "dnsmasq-base")
  static let nsenter = Tool("nsenter", package: "util-linux")
  static let openssl = Tool("openssl")
  static let sha256sum = Tool("sha256sum")

  /// What was built beside these tests.
  static let sockcat: Tool = {
    let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    let folder = URL(fileURLWithPath: own).deletingLastPathComponent()
    return Tool(name: "sockcat", url: folder.appendingPathComponent("sockcat"))
  }()
}

extension Trait where Self == ConditionTrait {
  /// Runs the test if a tool is there, and says so if not.
  static func needs(_ tool: Tool) -> Self {
    .enabled(if: tool.isInstalled, "\(tool.name) is not installed: apt-get install \(tool.package)")
  }
}

/// The kinds of sockets that tests run over.
enum Family: String, CaseIterable, CustomTestStringConvertible {
  case ipv4, ipv6, unix

  var testDescription: String { rawValue }

  /// What to tell sockcat to listen on.
  func freeEndpoint(in folder: Folder) -> String {
    switch self {
    case .ipv4: "127.0.0.1:0"
    case .ipv6: "[::1]:0"
    case .unix: "unix:\(folder.file("socket").path)"
    }
  }

  /// How socat spells an address that sockcat listens on.
  func socat(_ address: String) -> String {
    switch self {
    case .ipv4: "TCP4:\(address)"
    case .ipv6: "TCP6:\(address)"
    case .unix: "UNIX-CONNECT:\(address.dropFirst(5))"
    }
  }

  /// How socat is told to listen, before options.
  func socatListening(in folder: Folder) -> String {
    switch self {
    case .ipv4: "TCP4-LISTEN:0,bind=127.0.0.1"
    case .ipv6: "TCP6-LISTEN:0,bind=[::1]"
    case .unix: "UNIX-LISTEN:\(folder.file("socket").path)"
    }
  }
}

/// A folder for a test's files, which goes when the test ends.
final class Folder: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("sockcat-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  func file(_ name: String) -> URL { url.appendingPathComponent(name) }
}

extension Program {
  /// Starts `sockcat listen` and waits until it does.
  ///
  /// - Returns: The program, and the address it listens on.
  static func listening(_ arguments: [String], input: Input = .nothing) async throws -> (Program, String) {
    try await announced(Program(.sockcat, ["listen"] + arguments, input: input))
  }

  /// Waits until a sockcat that was started says that it listens.
  ///
  /// - Returns: The program, and the address it listens on.
  static func announced(_ server: Program) async throws -> (Program, String) {
    try await server.waitForError("\n")
    let line = await server.errors.text.prefix { $0 != "\n" }
    guard line.hasPrefix("listening on ") else { throw Disappointment(description: "\(server) printed: \(line)") }
    return (server, String(line.dropFirst("listening on ".count)))
  }

  /// Starts socat as a server for one connection and waits until it listens.
  ///
  /// - Returns: The program, and the endpoint to connect sockcat to.
  static func socatListening(
    _ family: Family, in folder: Folder, options: String = "", _ other: String, input: Input = .nothing,
    outputTo file: URL? = nil
  ) async throws -> (Program, String) {
    let arguments = ["-d", "-d", "-b", "65536", "-t", "20", other, family.socatListening(in: folder) + options]
    let server = try await Program(.socat, arguments, input: input, outputTo: file)
    if family == .unix {
      try await server.waitForError("listening on")
      return (server, "unix:\(folder.file("socket").path)")
    }
    _ = await server.errors.wait { $0.contains(/listening on [^\n]*:\d+\n/) }
    guard let match = await server.errors.text.firstMatch(of: /listening on [^\n]*:(\d+)\n/) else {
      throw Disappointment(description: "\(server) does not listen: \(await server.errors.text)")
    }
    return (server, family == .ipv4 ? "127.0.0.1:\(match.1)" : "[::1]:\(match.1)")
  }
}
