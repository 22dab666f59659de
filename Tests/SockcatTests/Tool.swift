import Foundation
import TestSupport
import Testing

extension Tool {
  /// The sockcat that was built beside these tests.
  static let sockcat = Tool(
    name: "sockcat", package: "sockcat", url: ownProgram.deletingLastPathComponent().appendingPathComponent("sockcat"))
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
