enum HelpText {
  /// In columns.
  static let width = 98
  private static let column = 30

  static var text: String {
    var lines = ["sockcat \(SockcatCommand.version): netcat on ActorSockets", ""]
    for command in Manual.commands {
      lines.append("sockcat \(command.text.name) \(command.text.operands.joined(separator: " ")) [options]")
      lines += wrapped(command.text.text, indent: 4)
      for option in command.options { lines += self.lines(of: option) }
      lines.append("")
    }
    lines.append(padded("sockcat demo") + Manual.demo)
    lines.append("sockcat --help, sockcat --version")
    for section in Manual.sections {
      lines += [""] + wrapped("\(section.title): \(section.text)", indent: 0)
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func lines(of option: OptionText) -> [String] {
    let name = padded("      " + option.form)
    let text = wrapped(option.text, indent: column)
    // At least two spaces are between the two.
    guard name.utf8.count == column, name.hasSuffix("  "), let first = text.first else { return [name] + text }
    return [name + first.dropFirst(column)] + text.dropFirst()
  }

  private static func padded(_ text: String) -> String {
    text + String(repeating: " ", count: max(0, column - text.utf8.count))
  }

  private static func wrapped(_ text: String, indent: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, indent + line.utf8.count + 1 + word.utf8.count > width {
        lines.append(line)
        line = ""
      }
      line += line.isEmpty ? word : " " + word
    }
    return (lines + [line]).map { String(repeating: " ", count: indent) + $0 }
  }
}
