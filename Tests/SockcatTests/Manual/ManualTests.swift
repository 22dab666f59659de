import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct ManualTests {
  /// All options, with the commands that have them.
  private static let options = Manual.commands.flatMap { command in
    command.options.map { (command.text.name, $0) }
  }

  /// Whether the parser of a command knows an option.
  private func isParsed(_ option: String, by command: String) -> Bool {
    do {
      _ = try Command(parsing: [command, option])
      return true
    } catch {
      return !error.message.contains("no option")
    }
  }

  @Test func `Each option that is documented is parsed`() {
    #expect(Self.options.count > 40)
    for (command, option) in Self.options {
      #expect(isParsed(option.name, by: command), "\(command) \(option.name)")
      #expect(!isParsed(option.name + "x", by: command))
    }
  }

  @Test func `Each option in the help is parsed, below the command that has it`() {
    var command = ""
    var found = 0
    for line in HelpText.text.split(separator: "\n") {
      if let match = line.firstMatch(of: /^sockcat ([a-z-]+)/) { command = String(match.1) }
      if let match = line.firstMatch(of: /^ {6}(-\S+)/) {
        found += 1
        #expect(isParsed(String(match.1), by: command), "\(command) \(match.1)")
      }
    }
    #expect(found == Self.options.count)
  }

  @Test func `Each option that is parsed is in the help, the man page and the completions`() {
    let (bash, zsh) = (Shell.bash.completions, Shell.zsh.completions)
    for (_, option) in Self.options {
      #expect(HelpText.text.contains("      \(option.form)"))
      #expect(ManPage.text.contains("\\fB\(option.name.replacing("-", with: "\\-"))\\fR"))
      #expect(bash.contains(" \(option.name) ") || bash.contains("'\(option.name) "))
      #expect(zsh.contains("\(option.name)\(option.value == nil ? "" : "=")["))
    }
    for command in Manual.commands { #expect(HelpText.text.contains("\nsockcat \(command.text.name) ")) }
  }

  @Test func `No option is there twice, and each text is a sentence without its period`() {
    for command in Manual.commands {
      #expect(Set(command.options.map(\.name)).count == command.options.count)
      for option in command.options {
        #expect(option.text.first?.isLowercase == true && option.text.last != ".", "\(option.text)")
        #expect(!option.text.contains("  ") && !option.text.contains("\n"))
      }
    }
  }

  @Test func `The help fits in 100 columns and has all exit statuses`() {
    for line in HelpText.text.split(separator: "\n") {
      #expect(line.utf8.count <= 100 && line.last != " ", "\(line)")
    }
    for status in [0] + Failure.Status.allCases.map(\.rawValue) {
      #expect(HelpText.text.contains(" \(status) "))
      #expect(ManPage.text.contains("\n.B \(status)\n"))
    }
  }
}
