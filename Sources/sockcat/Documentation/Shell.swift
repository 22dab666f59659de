/// A shell for which there are completions.
enum Shell: String, CaseIterable {
  case bash, zsh

  /// The script that the shell reads.
  var completions: String {
    switch self {
    case .bash: BashCompletions.text
    case .zsh: ZshCompletions.text
    }
  }
}
