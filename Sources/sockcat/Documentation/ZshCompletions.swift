/// See zshcompsys(1), `_arguments` and `_describe`.
enum ZshCompletions {
  static var text: String {
    """
    #compdef sockcat
    # Completions of sockcat for zsh, made by `sockcat --completions zsh`.

    local context state state_descr line ret=1
    typeset -A opt_args
    local -a commands=(
    \(commands)
    )

    _arguments -C \\
      '(- *)--help[prints the help]' '(- *)--version[prints the version]' \\
      '1: :->command' '*:: :->arguments' && ret=0

    case $state in
      command) _describe command commands && ret=0 ;;
      arguments)
        case $words[1] in
    \(cases)
        esac ;;
    esac
    return ret

    """
  }

  private static var commands: String {
    (Manual.commands.map { ($0.text.name, $0.text.summary) } + [("demo", Manual.demo)])
      .map { name, summary in "  \(quoted("\(name):\(summary)"))" }
      .joined(separator: "\n")
  }

  private static var cases: String {
    Manual.commands.map { command in
      let options = command.options.map { "            \(quoted(specification(of: $0)))" }
      let operands = command.text.operands.map { "            '\(":\($0.lowercased()): "):'" }
      return """
              \(command.text.name))
                _arguments -S \\
        \((options + ["            '(- *)--help[prints the help]'"] + operands).joined(separator: " \\\n")) && ret=0 ;;
        """
    }
    .joined(separator: "\n")
  }

  /// In the notation of `_arguments`.
  private static func specification(of option: OptionText) -> String {
    // A colon or a bracket would end the text.
    let summary = option.summary.filter { !":[]".contains($0) }
    guard let value = option.value else { return "\(option.name)[\(summary)]" }
    // A long option takes its value after a space or a `=`.
    return "*\(option.name)=[\(summary)]:\(value.name):\(action(value.kind))"
  }

  private static func action(_ kind: OptionText.Value.Kind) -> String {
    switch kind {
    case .anything: " "
    case .file: "_files"
    case .interface: "_net_interfaces"
    case .choice(let words): "(\(words.joined(separator: " ")))"
    }
  }

  private static func quoted(_ text: String) -> String {
    "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}
