import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

/// The commands of Docs/Sockcat.md print what the page says. Each section has a network and a folder of its own, so its ports are free.
@Suite(.needs(.nsenter), .needs(.bash), .needs(.openssl), .needsNamespaces)
struct SockcatPageTests {
  private static let things = SockcatPage.shared.things
  private static let mailServer = SocketAddress.ipv4(.loopback, port: 25)

  @Test func `The page has ten things, each with a command and its output`() {
    #expect(Self.things.count == 10)
    for (index, thing) in Self.things.enumerated() {
      #expect(thing.description.hasPrefix("\(index + 1). "))
      #expect(thing.blocks.joined().contains { !$0.output.isEmpty }, "\(thing)")
    }
    #expect(Self.things.filter(\.isDialogue).count == 1)
  }

  @Test(.needs(.curl), .needs(.tshark), arguments: things.filter { !$0.isDialogue })
  func `The commands print what the page says`(section: SockcatPage.Section) async throws {
    let folder = try Folder()
    let network = try await Namespace()
    try await network.ip("link set lo up")
    let terminal = try await Terminal(in: network, folder)
    if section.needsCertificates {
      try await terminal.run(SockcatPage.shared.makingCertificates + "echo made\n", linesOfOutput: 1, until: "made")
    }
    let needsMail = section.blocks.joined().contains { $0.command.contains("smtp") }
    let mail = needsMail ? try await serveMail(in: network, folder) : nil
    for step in section.blocks.joined() {
      let printed = try await terminal.run(step.command + "\n", linesOfOutput: step.output.count)
      if let difference = ComparableLine.difference(of: step.output, from: printed) {
        Issue.record("$ \(step.command)\n\(difference)")
      }
    }
    #expect(try await terminal.end() == [])
    mail?.cancel()
  }

  @Test func `Two terminals of a chat show what the page says`() async throws {
    let section = try #require(Self.things.first { $0.isDialogue })
    let network = try await Namespace()
    try await network.ip("link set lo up")
    var terminals: [Program] = []
    let scripts = try section.blocks.map { try #require($0.first) }
    for script in scripts {
      let words = script.command.split(separator: " ").map(String.init)
      try #require(words.first == "sockcat")
      let program = try await Program.started(.sockcat, Array(words.dropFirst()), input: .pipe, in: network)
      terminals.append(program)
      // The next one comes later.
      let first = try #require(script.output.first)
      let isServer = first.hasPrefix("listening")
      if isServer { try await program.waitForError(first) } else { try await program.waitForOutput(first) }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (program, script) in zip(terminals, scripts).dropFirst() {
        group.addTask { try await Self.play(script, in: program) }
      }
      try await group.waitForAll()
    }
    for (program, script) in zip(terminals, scripts).dropFirst() {
      #expect(await program.output.text == script.output.text)
    }
    #expect(await terminals[0].errors.text == scripts[0].output.text)
    for program in terminals.reversed() { await program.kill(SIGKILL) }
  }

  /// Types what the page types, each line when all lines before it have been printed.
  private static func play(_ script: SockcatPage.Step, in program: Program) async throws {
    var expected: [String] = []
    for line in script.lines {
      if line.hasPrefix("> ") {
        try await program.send("\(line.dropFirst(2))\n")
      } else {
        expected.append(line)
        try await program.waitForOutput(expected.text)
      }
    }
  }

  /// A mail server with the certificate of the page, until the task is cancelled.
  private func serveMail(in network: Namespace, _ folder: Folder) async throws -> Task<Void, any Error> {
    let files = ["server.pem", "server.key"].map { folder.file($0).path }
    let identity = try TLSIdentity(certificateFile: files[0], keyFile: files[1])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    let listener = try await network.run { try TCPListener.bind(to: .address(Self.mailServer)) }
    return Task {
      _ = try await listener.serve(.init(onFailure: { _ in })) { connection in
        try await connection.write(utf8: "220 mail.example.org ready\r\n")
        _ = try await connection.read(until: .crlf)
        try await connection.write(utf8: "250-mail.example.org\r\n250 STARTTLS\r\n")
        _ = try await connection.read(until: .crlf)
        try await connection.write(utf8: "220 go ahead\r\n")
        let encrypted = connection.startTLS(context, as: .server)
        _ = try await encrypted.read()
        await encrypted.close()
      }
    }
  }
}

extension [String] {
  fileprivate var text: String { map { $0 + "\n" }.joined() }
}

/// A shell in a network and a folder of its own. What it and its programs print comes in one stream, as on a terminal.
private final class Terminal: Sendable {
  private let shell: Program
  private let linesSeen = Notes<Int>()

  init(in network: Namespace, _ folder: Folder) async throws {
    shell = try await Program(
      .nsenter, ["--net=\(network.path)", Tool.bash.url.path, "--norc"], input: .pipe, in: folder.url)
    let programs = Tool.sockcat.url.deletingLastPathComponent().path
    try await shell.send("exec 2>&1; export PATH=\(programs):$PATH:/usr/sbin:/sbin\n")
  }

  /// Runs commands, and waits for this number of lines.
  ///
  /// - Parameters:
  ///   - commands: The lines to type.
  ///   - count: The number of lines.
  ///   - end: The last line of the output, if the number of lines is not known.
  /// - Returns: The lines.
  /// - Throws: A sentence, if the shell ends before.
  @discardableResult
  func run(_ commands: String, linesOfOutput count: Int, until end: String? = nil) async throws -> [String] {
    let seen = linesSeen.all.last ?? 0
    try await shell.send(commands)
    let hasCome = await shell.output.wait { text in
      let lines = Self.lines(of: text)
      return end.map { lines.last == $0 } ?? (lines.count >= seen + count)
    }
    let lines = Self.lines(of: await shell.output.text)
    if !hasCome {
      throw Program.Disappointment(description: "\(commands) printed \(lines.dropFirst(seen)), not \(count) lines")
    }
    let taken = end == nil ? seen + count : lines.count
    linesSeen.add(taken)
    return Array(lines[seen..<taken])
  }

  /// Ends the shell and its programs.
  ///
  /// - Returns: The lines that were printed and not taken.
  /// - Throws: A sentence, if the shell does not end.
  func end() async throws -> [String] {
    let mark = "this is the end"
    let lines = try await run("echo \(mark)\n", linesOfOutput: 1, until: mark)
    try await shell.send("kill $(jobs -p) 2> /dev/null; wait; exit 0\n")
    #expect(try await shell.exitStatus() == 0)
    return lines.dropLast()
  }

  /// The lines that are complete.
  private static func lines(of text: String) -> [String] {
    let lines = text.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false)
    return lines.dropLast().map(String.init)
  }
}
