import Foundation
import TestSupport
import Testing

extension Tool {
  fileprivate static let groff = Tool("groff", package: "groff-base")
  fileprivate static let zsh = Tool("zsh")
}

/// What groff and the shells make of the man page and the completions.
struct ManualToolTests {
  private let folder: Folder

  init() throws { folder = try Folder() }

  /// Writes what sockcat prints into a file.
  private func file(_ name: String, _ arguments: [String]) async throws -> String {
    let file = folder.file(name)
    let sockcat = try await Program(.sockcat, arguments, outputTo: file)
    #expect(try await sockcat.exitStatus() == 0)
    return file.path
  }

  @Test(.needs(.groff)) func `groff has nothing to say against the man page, and shows all of it`() async throws {
    let page = try await file("sockcat.1", ["--man"])
    let groff = try await Program(.groff, ["-ww", "-man", "-Tascii", "-P-c", "-rLL=200n", page])
    #expect(try await groff.exitStatus() == 0)
    #expect(await groff.errors.whole == "")
    let text = await groff.output.whole
    for part in [
      "sockcat - netcat on ActorSockets", "--send-proxy-protocol VERSION", "written as \\n, \\r, \\t or \\xNN",
      "server's certificate", "EXIT STATUS", "A certificate was not accepted, by either side.",
      "ENVIRONMENT",
    ] {
      let isThere = text.replacing(/.\u{8}/, with: "").replacing(/\s+/, with: " ").contains(part)
      #expect(isThere, "\(part)")
    }
  }

  // MARK: bash

  /// Returns what bash offers for the last of these words.
  private func bash(_ words: String) async throws -> [String] {
    let script = """
      source '\(try await file("sockcat.bash", ["--completions", "bash"]))'
      [[ $(complete -p sockcat) == 'complete -F _sockcat sockcat' ]] || exit 1
      COMP_WORDS=(sockcat \(words)); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
      _sockcat; printf '%s\\n' "${COMPREPLY[@]}"
      """
    let shell = try await Program(.bash, ["-u", "-c", script], in: folder.url)
    #expect(try await shell.exitStatus() == 0)
    #expect(await shell.errors.whole == "")
    return await shell.output.lines
  }

  @Test(
    .needs(.bash),
    arguments: [
      ("''", ["connect", "listen", "proxy", "udp-listen", "udp-send", "inspect", "demo", "--help", "--version"]),
      ("udp", ["udp-listen", "udp-send"]), ("connect --st", ["--starttls"]),
      ("connect --starttls ''", ["smtp", "imap", "postgres"]),
      ("connect a:1 --starttls i", ["imap"]), ("connect --starttls = p", ["postgres"]),
      ("connect --starttls =", ["smtp", "imap", "postgres"]), ("listen --on r", ["reactor"]),
      ("proxy :0 a:1 --send-proxy-protocol v", ["v1", "v2"]), ("listen --starttls ''", []),
      ("connect --timeout --t", []),
      ("udp-send --source lo", ["lo"]), ("udp-listen --interface lo", ["lo"]), ("connect ''", []),
      ("listen --require", ["--require-proxy-protocol"]), ("demo --", []),
    ])
  func `bash offers commands, options and values`(words: String, offers: [String]) async throws {
    let found = try await bash(words).filter { !$0.isEmpty }
    #expect(words.hasSuffix("lo") ? found.contains("lo") : found == offers)
  }

  @Test(.needs(.bash), arguments: ["connect --ca", "listen --cert", "connect --capture ="])
  func `bash offers files, also those with spaces in their names`(words: String) async throws {
    for name in ["my ca.pem", "my key.pem", "other"] { try Data().write(to: folder.file(name)) }
    #expect(try await bash(words + " my").sorted() == ["my ca.pem", "my key.pem"])
  }

  // MARK: zsh

  @Test(
    .needs(.zsh),
    arguments: [
      ("sockcat udp-l", "sockcat udp-listen "), ("sockcat connect --startt", "sockcat connect --starttls="),
      ("sockcat connect --starttls im", "sockcat connect --starttls imap "),
      ("sockcat listen --on=r", "sockcat listen --on=reactor "),
      ("sockcat connect a:1 --ca my", "sockcat connect a:1 --ca my\\ file "),
      ("sockcat listen :0 --requi", "sockcat listen :0 --require-proxy-protocol="),
    ])
  func `zsh completes commands, options and values`(typed: String, completed: String) async throws {
    try Data().write(to: folder.file("my file"))
    _ = try await file("_sockcat", ["--completions", "zsh"])
    // The shell on the pseudo terminal prints the line that it has after the tab.
    let script = """
      zmodload zsh/zpty
      zpty shell 'zsh -f -i'
      zpty -w shell 'PS1=; TERM=dumb; unsetopt zle_bracketed_paste; fpath=($PWD $fpath); autoload -U compinit; compinit -D -u'
      zpty -w shell 'show() { print -r -- "line<$BUFFER>"; }; zle -N show; bindkey "^X" show; print rea""dy'
      zpty -r -m shell answer '*ready*'
      zpty -w -n shell $'\(typed)\\t\\x18'
      zpty -r -m shell answer '*line<*>*'
      print -r -- ${${answer##*line<}%%>*}
      """
    let shell = try await Program(.zsh, ["-f", "-c", script], in: folder.url)
    #expect(try await shell.exitStatus() == 0)
    #expect(await shell.output.whole == completed + "\n")
  }
}
