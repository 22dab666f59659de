import Foundation
import TestSupport
import Testing

extension Tool {
  /// The sockcat that was built beside these tests.
  static let sockcat = Tool(
    name: "sockcat", package: "sockcat", url: ownProgram.deletingLastPathComponent().appendingPathComponent("sockcat"))
}

enum Family: String, CaseIterable, CustomTestStringConvertible {
  case ipv4, ipv6, unix

  var testDescription: String { rawValue }

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

  func socatListening(in folder: Folder) -> String {
    switch self {
    case .ipv4: "TCP4-LISTEN:0,bind=127.0.0.1"
    case .ipv6: "TCP6-LISTEN:0,bind=[::1]"
    case .unix: "UNIX-LISTEN:\(folder.file("socket").path)"
    }
  }
}

extension Program {
  /// Starts `sockcat listen`, and waits until it says the address on which it listens.
  static func listening(_ arguments: [String], input: Input = .nothing) async throws -> (Program, String) {
    try await announced(Program(.sockcat, ["listen"] + arguments, input: input))
  }

  /// Starts `sockcat proxy`, as ``listening(_:input:)`` does.
  static func proxying(_ arguments: [String]) async throws -> (Program, String) {
    try await announced(Program(.sockcat, ["proxy"] + arguments))
  }

  static func announced(_ server: Program) async throws -> (Program, String) {
    try await server.waitForError("\n")
    let line = await server.errors.text.prefix { $0 != "\n" }
    guard line.hasPrefix("listening on ") else { throw Disappointment(description: "\(server) printed: \(line)") }
    return (server, String(line.dropFirst("listening on ".count)))
  }

  /// Starts socat as a server for one connection, and waits until it listens on the endpoint that is returned.
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

// MARK: Expectations of a program

extension Program {
  func expectStatus(_ expected: Int32 = 0, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let status = try await exitStatus()
    #expect(status == expected, "\(self)", sourceLocation: sourceLocation)
  }

  /// Ends it with a signal, as a service manager does.
  func stop(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    kill(SIGTERM)
    try await expectStatus(sourceLocation: sourceLocation)
  }

  /// Ends a server that has only said where it listens.
  func stopQuietly(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await stop(sourceLocation: sourceLocation)
    let lines = await errors.lines
    #expect(lines.count == 1, "\(lines)", sourceLocation: sourceLocation)
  }

  /// Sends a text, and waits until it comes back.
  func exchange(_ text: String) async throws {
    try send(text)
    try await waitForOutput(text)
  }

  func finish(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try finishInput()
    try await expectStatus(sourceLocation: sourceLocation)
  }

  func echo(_ text: String = "hello\n", sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await exchange(text)
    try await finish(sourceLocation: sourceLocation)
  }

  /// Expects an echo at an address, for a client of its own.
  static func expectEcho(at address: String, _ options: [String] = [], _ text: String = "hello\n") async throws {
    try await Program(.sockcat, ["connect", address] + options, input: .pipe).echo(text)
  }

  /// Expects an end with one line about the cause.
  func expectFailure(
    _ status: Int32, _ part: String, printing output: String = "", sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    try await expectStatus(status, sourceLocation: sourceLocation)
    let (lines, printed) = (await errors.lines, await self.output.whole)
    #expect(lines.count == 1 && lines.first?.hasPrefix("sockcat: ") == true, "\(lines)", sourceLocation: sourceLocation)
    #expect(lines.first?.contains(part) == true, "\(lines)", sourceLocation: sourceLocation)
    #expect(printed == output, sourceLocation: sourceLocation)
  }
}

func expectSuccess(_ programs: Program..., sourceLocation: SourceLocation = #_sourceLocation) async throws {
  for program in programs { try await program.expectStatus(sourceLocation: sourceLocation) }
}
