enum Shell: String, CaseIterable {
  case bash, zsh

  var completions: String {
    switch self {
    case .bash: BashCompletions.text
    case .zsh: ZshCompletions.text
    }
  }
}
