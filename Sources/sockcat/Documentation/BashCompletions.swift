/// See bash(1), section "Programmable Completion". The script needs no other file.
enum BashCompletions {
  static var text: String {
    """
    # Completions of sockcat for bash, made by `sockcat --completions bash`.

    _sockcat() {
      local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
      COMPREPLY=()
      # bash splits --option=value into three words.
      if [[ $word == = ]]; then
        word=
      elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
      fi
      if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '\(firstWords)' -- "$word")
        return
      fi
      case "$command $option" in
    \(values)
      esac
      [[ $word == -* ]] || return
      case $command in
    \(options)
      esac
    }

    complete -F _sockcat sockcat

    """
  }

  private static let firstWords = (Manual.commands.map(\.text.name) + ["demo", "--help", "--version"])
    .joined(separator: " ")

  private static var values: String {
    Manual.commands.flatMap { command in
      command.options.compactMap { option in
        option.value.map { "    '\(command.text.name) \(option.name)') \(action($0.kind)); return ;;" }
      }
    }
    .joined(separator: "\n")
  }

  private static func action(_ kind: OptionText.Value.Kind) -> String {
    switch kind {
    case .anything: "COMPREPLY=()"
    case .file: "compopt -o filenames 2>/dev/null; \(reply("-f"))"
    case .interface: reply("-W \"$(command ls /sys/class/net 2>/dev/null)\"")
    case .choice(let words): reply("-W '\(words.joined(separator: " "))'")
    }
  }

  private static func reply(_ words: String) -> String {
    "mapfile -t COMPREPLY < <(compgen \(words) -- \"$word\")"
  }

  private static var options: String {
    Manual.commands.map { command in
      let names = command.options.map(\.name) + ["--help"]
      return "    \(command.text.name)) \(reply("-W '\(names.joined(separator: " "))'")) ;;"
    }
    .joined(separator: "\n")
  }
}
