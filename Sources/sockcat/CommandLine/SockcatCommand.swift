import Glibc

@main
struct SockcatCommand {
  /// The package's version. It ends with `-dev` until a commit is tagged with it.
  static let version = "0.1.0-dev"

  static func main() async {
    // Writing to a pipe without a reader should be an error like any other, and not end the process.
    signal(SIGPIPE, SIG_IGN)
    openMissingStreams()
    do {
      try await Command(parsing: Arguments.all()).run()
    } catch {
      let failure = Failure(error)
      StandardError.write(line: "sockcat: \(failure.message)")
      exit(failure.status.rawValue)
    }
    exit(0)
  }
}

extension Command {
  func run() async throws {
    switch self {
    case .help: try await StandardOutput().write(utf8: HelpText.text)
    case .version: try await StandardOutput().write(utf8: "sockcat \(SockcatCommand.version)\n")
    case .manPage: try await StandardOutput().write(utf8: ManPage.text)
    case .completions(let shell): try await StandardOutput().write(utf8: shell.completions)
    case .demo: try await Demo().run()
    case .connect(let options): try await Connect(options: options).run()
    case .listen(let options): try await Listen(options: options).run()
    case .udpListen(let options): try await UDPListen(options: options).run()
    case .udpSend(let options): try await UDPSend(options: options).run()
    case .inspect(let options): try await Inspect(options: options).run()
    }
  }
}
