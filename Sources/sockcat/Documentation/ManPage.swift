/// In the macros of man(7).
enum ManPage {
  static var text: String {
    var lines = [
      ".TH SOCKCAT 1 \"\" \"sockcat \(escaped(SockcatCommand.version))\" \"User Commands\"",
      ".SH NAME", "sockcat \\- netcat on ActorSockets", ".SH SYNOPSIS",
    ]
    for command in Manual.commands { lines += [synopsis(of: command), ".br"] }
    lines += [".B sockcat demo", ".br", ".B sockcat \\-\\-help", ".br", ".B sockcat \\-\\-version", ".SH COMMANDS"]
    for command in Manual.commands { lines += section(of: command) }
    lines += [".SS sockcat demo", sentence(Manual.demo)]
    for section in Manual.sections where section.title != exitStatus {
      lines += [".SH " + section.title.uppercased(), escaped(section.text)]
    }
    lines.append(".SH " + exitStatus.uppercased())
    for (status, meaning) in Failure.Status.meanings { lines += [".TP", ".B \(status)", sentence(meaning)] }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The section that is a list here.
  private static let exitStatus = "Exit status"

  private static func synopsis(of command: CommandDocumentation) -> String {
    let operands = command.text.operands.map { " \\fI\($0)\\fR" }.joined()
    return "\\fBsockcat \(escaped(command.text.name))\\fR\(operands) [\\fIoptions\\fR]"
  }

  private static func section(of command: CommandDocumentation) -> [String] {
    var lines = [".SS sockcat " + escaped(command.text.name), escaped(command.text.text)]
    for option in command.options {
      let value = option.value.map { " \\fI\(escaped($0.name))\\fR" } ?? ""
      lines += [".TP", "\\fB\(escaped(option.name))\\fR\(value)", sentence(option.text)]
    }
    return lines
  }

  private static func sentence(_ text: String) -> String {
    escaped(text.prefix(1).uppercased() + text.dropFirst()) + "."
  }

  /// Returns a text that groff(7) shows as it is.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text {
      switch character {
      case "\\": escaped += "\\e"
      case "-": escaped += "\\-"
      // A straight quote, which groff would turn around.
      case "'": escaped += "\\(aq"
      default: escaped.append(character)
      }
    }
    // A line that begins with a period would be a macro.
    return escaped.hasPrefix(".") ? "\\&" + escaped : escaped
  }
}
